"""Logs of what scripts printed become runs, each file one."""

from __future__ import annotations

from pathlib import Path

import pytest


def log(success: float) -> str:
    return f"""config: {{'actor': {{'weight_pow': 2.0}}}}
(TaskRunner pid=1) step:0 - val/success:np.float64({success})
(TaskRunner pid=1) step:1 - actor/entropy:0.5 - train/success:{success / 2}\x1b[36m(TaskRunner)\x1b[0m Training: 1/2
"""


def test_the_console_logs_of_verl(plat, project, stored):
    for arm, success in (("on", 0.5), ("off", 0.25)):
        folder = Path("runs", f"3B-filter{arm}")
        folder.mkdir(parents=True)
        (folder / "train.log").write_text(log(success))
        (folder / "metadata.txt").write_text("steps : 2\noptimizer : PPO\n")
    arguments = ["runs", "--path", "{size}-filter{filter}/train.log", "--beside", "metadata.txt", "--out", "new.yaml"]
    assert plat("import", "log", *arguments)[0] == 0
    found = stored("new.yaml", "filter")
    for arm, success in (("on", 0.5), ("off", 0.25)):
        curves = {"val/success": [(0, success)], "actor/entropy": [(1, 0.5)], "train/success": [(1, success / 2)]}
        assert found[arm,] == curves


def test_lines_before_those_with_dashes_are_said_and_others_are_kept(plat, project, stored):
    Path("a.log").write_text("epoch 1 loss 0.9\nepoch 3 eval step:3 - acc:0.5\nepoch 4 loss 0.7\n")
    assert plat("import", "log", "a.log", "--out", "new.yaml")[0] == 0
    (curves,) = stored("new.yaml", "seed").values()
    assert curves["loss"] == [(1, 0.9), (4, 0.7)]
    Path("b.log").write_text("epoch 1 loss 0.9\nstep:2 - acc:0.5\n")
    code, out, _ = plat("import", "log", "b.log", "--dry-run")
    assert code == 0 and "the lines before the first `step:N - ...` are left out" in out


@pytest.mark.parametrize(
    ("text", "message"), [("no number at all\n", "no run has a metric"), (None, "there is no such file or folder")]
)
def test_logs_without_metrics_are_refused(plat, project, text, message):
    if text is not None:
        Path("a.log").write_text(text)
    code, _, err = plat("import", "log", "a.log", "--out", "new.yaml")
    assert code == 2 and message in err and not Path("new.yaml").exists()
