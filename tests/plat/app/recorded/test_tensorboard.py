"""Folders with event files become runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from torch.utils.tensorboard import SummaryWriter


def write(folder: str, name: str = "loss", start: float = 1.0) -> Path:
    with SummaryWriter(folder) as writer:
        for step in range(1, 4):
            writer.add_scalar(name, start / step, step)
    return next(Path(folder).glob("*tfevents*"))


@pytest.fixture
def sound(project: Path) -> Path:
    return write("logs/lr=0.1")


def test_event_files_give_their_numbers(plat, project, stored, means):
    for lr in (0.5, 0.25):
        for seed in (0, 1):
            write(f"logs/lr={lr}/seed={seed}", start=lr + seed)
            write(f"logs/lr={lr}/seed={seed}/validation", start=lr)
    code, _, err = plat("import", "tensorboard", "logs", "--out", "tb.yaml")
    assert (code, err) == (0, "")
    expected = {
        (lr, seed): {
            "loss": [(step, pytest.approx((lr + seed) / step)) for step in (1, 2, 3)],
            "validation/loss": [(step, pytest.approx(lr / step)) for step in (1, 2, 3)],
        }
        for lr in (0.5, 0.25)
        for seed in (0, 1)
    }
    assert stored("tb.yaml", "lr", "seed") == expected
    assert means("tb")["0.5", "loss"][0] == pytest.approx((0.5 + 1.5) / 2 / 3)


def test_parts_of_a_run_and_its_config(plat, project, stored):
    for name, rate in {"one": "1e-3", "two": "2.0e-3"}.items():
        write(f"logs/{name}/train")
        write(f"logs/{name}/val")
        Path("logs", name, "hparams.yaml").write_text(f"lr: {rate}\nlogger: {{dir: logs/{name}}}\n")
    assert plat("import", "tensorboard", "logs", "--out", "tb.yaml")[0] == 0
    found = stored("tb.yaml", "lr")
    assert set(found) == {(1e-3,), (2e-3,)}
    assert all(set(curves) == {"train/loss", "val/loss"} for curves in found.values())


def test_a_file_that_is_cut_off_has_not_finished(plat, sound):
    second = write("logs/lr=0.2")
    second.write_bytes(second.read_bytes()[:-5])
    code, out, _ = plat("import", "tensorboard", "logs", "--out", "tb.yaml", "--no-sweep")
    assert code == 0 and "1 run of tensorboard" in out and "did not finish: 1 run (--unfinished" in out
    out = plat("import", "tensorboard", "logs", "--out", "tb.yaml", "--no-sweep", "--unfinished", "--force")[1]
    assert "2 runs of tensorboard" in out and "did not finish" not in out


def test_bad_input_is_refused(plat, project, sound):
    def refused(*arguments: str) -> str:
        code, _, err = plat("import", "tensorboard", *arguments, "--out", "new.yaml")
        assert code == 2 and not Path("new.yaml").exists() and not Path("new-runs").exists()
        return err

    Path("empty").mkdir()
    assert "no such folder" in refused("nowhere")
    assert "no event file" in refused("empty")
    data = bytearray(sound.read_bytes())
    data[-6] ^= 255
    sound.write_bytes(data)
    assert re.search(f"the event file is damaged.*at: {sound}", refused("logs"), flags=re.S)
    with SummaryWriter("texts") as writer:
        writer.add_text("note", "x", 1)
    assert "no run has a metric" in refused("texts")
