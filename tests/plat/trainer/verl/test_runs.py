"""Whole runs with verl on two CPU cores, started as users start them: real Ray, FSDP workers, rollout servers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.verl

COMMON = ("trainer=verl", "scale=smoke", "task=sokoban", "train.iterations=3", "early_stop.variance_window=0")
LIMIT = 240  # seconds; a run takes about 45 on two free cores


def start(home: Path, *overrides: str, log: str = "out.txt") -> subprocess.Popen[str]:
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "plat", "run", *COMMON, *overrides, "--home", str(home)]
    with (home / log).open("w") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, text=True, start_new_session=True)


def run(home: Path, *overrides: str) -> dict[str, Any]:
    """Do a run to its end; its result.json."""
    process = start(home, *overrides)
    assert process.wait(LIMIT) == 0, (home / "out.txt").read_text() + said(home)
    (result,) = home.glob("runs/*/*/result.json")
    content: dict[str, Any] = json.loads(result.read_text())
    return content


def said(home: Path) -> str:
    return "\n".join(file.read_text()[-4000:] for file in sorted(home.glob("runs/*/*/attempts/*/log.txt")))


def events(home: Path) -> list[dict[str, Any]]:
    """The events of all attempts, in order."""
    files = sorted(home.glob("runs/*/*/attempts/*/events.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def history(home: Path) -> dict[tuple[int, str], float]:
    """Every metric but timings by (step, name); a later attempt's value counts."""
    return {
        (event["step"], name): value
        for event in events(home)
        for name, value in event.get("metrics", {}).items()
        if not name.startswith(("time/", "mem/"))
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verl")


ALGORITHMS = {
    "ppo": ("algorithm=ppo", "filter=top_p"),
    "grpo, with a reference policy": ("algorithm=grpo", "filter=top_p", "algorithm.kl_coef=0.01"),
    "dapo on two workers": ("algorithm=dapo", "filter=none", "verl.workers=2"),
    "turns, each a sequence, with a reference policy on two workers, ppo": (
        "algorithm=ppo", "train.context=current", "algorithm.loss_agg=seq-mean-token-mean", "algorithm.kl_coef=0.01",
        "filter=top_p", "verl.workers=2",
    ),
    "drgrpo with adapters": ("algorithm=drgrpo", "filter=top_k", "filter.value=0.5", "verl.lora_rank=4"),
}  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(home: Path) -> Path:
    """The home of a finished run of PPO with the filter."""
    assert run(home / "ppo", *ALGORITHMS["ppo"])["outcome"] == "finished"
    return home / "ppo"


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_runs_from_its_beginning_to_its_end(home: Path, undisturbed: Path, name: str) -> None:
    place = undisturbed if name == "ppo" else home / name.split()[0].strip(",")
    result = run(place, *ALGORITHMS[name])  # what is done already is told at once
    assert result["outcome"] == "finished" and result["step"] == 3
    metrics = history(place)
    for step in (1, 2, 3):
        assert metrics[step, "filter/updates"] == 2 and metrics[step, "actor/grad_norm"] > 0
        assert 0 < metrics[step, "filter/kept_prompts"] <= 2
        assert ((step, "critic/grad_norm") in metrics) == ("ppo" in name)
        assert ((step, "actor/kl") in metrics) == ("reference" in name)
        # In merged adapters the rollout has weights that were rounded to bfloat16.
        assert metrics[step, "mi/score_gap"] < (0.05 if "adapters" in name else 1e-4)
        assert metrics[step, "rollout/cut"] == 0
    for event in ("val/success", "heldout/final_success", "probe/retrieval_acc"):
        assert any(metric == event for _, metric in metrics)
    tables = {event["table"] for event in events(place) if "table" in event}
    assert tables == {"reward_matrix", "val_instances", "probe", "heldout_base", "heldout_peak", "heldout_final"}


def test_the_names_are_those_of_the_embedded_trainer(home: Path, undisturbed: Path) -> None:
    place = home / "embedded"
    command = ["run", "scale=smoke", "task=sokoban", "algorithm=ppo", "filter=top_p", "train.context=full"]
    base = [
        "model.shape={layers: 1, width: 32, heads: 2, kv_heads: 2, ffn: 64}",
        "model.base={steps: 1500, batch: 64, pool: 20000, lr: 0.005}",
    ]
    subprocess.run([sys.executable, "-m", "plat", *command, *base, "--home", str(place)], check=True, timeout=LIMIT)
    ours = {name for _, name in history(undisturbed)}
    theirs = {name for _, name in history(place)}
    only_here = {"rollout/cut", "mi/score_gap"}
    assert ours - theirs <= only_here | {name for name in ours if "/level/" in name or name.startswith("probe/")}
    assert theirs - ours <= {"probe/retrieval_untrained"} | {name for name in theirs if name.startswith("probe/")}


def test_a_kept_checkpoint_is_as_good_when_it_is_evaluated_again(home: Path, undisturbed: Path) -> None:
    """`plat eval` has the very results that the run had, and prints nothing of what verl and Ray say."""
    (run_folder,) = undisturbed.glob("runs/*/*/result.json")
    command = ["eval", run_folder.parent.name, "--json", "--home", str(undisturbed)]
    done = subprocess.run([sys.executable, "-m", "plat", *command], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)["result"]
    (heldout,) = (event["data"] for event in events(undisturbed) if event.get("table") == "heldout_peak")
    assert again["split"] == "heldout" and again["instances"] == 8
    assert again["results"]["success"] == heldout["success"]
    assert done.stderr == ""


def wait_for_step(home: Path, step: int, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + LIMIT
    while not any(event["step"] >= step and "metrics" in event for event in events(home)):
        assert process.poll() is None and time.monotonic() < until, (home / "out.txt").read_text() + said(home)
        time.sleep(0.2)


def test_a_run_that_is_asked_to_stop_saves_and_ends(home: Path) -> None:
    place = home / "stopped"
    process = start(place, *ALGORITHMS["ppo"])
    wait_for_step(place, 1, process)
    process.send_signal(signal.SIGINT)
    process.wait(LIMIT)
    outcomes = [json.loads(file.read_text())["outcome"] for file in place.glob("runs/*/*/attempts/*/outcome.json")]
    assert outcomes == ["interrupted"], said(place)
    assert list(place.glob("runs/*/*/attempts/*/checkpoints/step-*"))


def test_a_killed_run_leaves_no_process_and_goes_on_in_another_one(home: Path, undisturbed: Path) -> None:
    place = home / "killed"
    process = start(place, *ALGORITHMS["ppo"])
    wait_for_step(place, 1, process)
    (lease,) = place.glob("runs/*/*/lease.json")
    worker = psutil.Process(json.loads(lease.read_text())["pid"])
    family = [worker, *worker.children(recursive=True)]
    names = [member.name() for member in family]
    assert {"raylet", "gcs_server"} <= set(names) and len(family) > 6, names
    os.killpg(process.pid, signal.SIGKILL)  # nobody is left who could clean up
    worker.kill()
    process.wait()
    result = run(place, *ALGORITHMS["ppo"])
    assert result["outcome"] == "finished" and result["step"] == 3
    attempts = sorted(place.glob("runs/*/*/attempts/*/attempt.json"))
    assert json.loads(attempts[-1].read_text())["restored_step"] >= 1
    expected, resumed = history(undisturbed), history(place)
    assert resumed.keys() == expected.keys()
    # What is drawn is a function of the seed and the step; sums of larger or smaller batches round differently.
    for key, value in expected.items():
        assert resumed[key] == pytest.approx(value, rel=1e-3, abs=1e-4, nan_ok=True), key
    _, left = psutil.wait_procs(family, timeout=120)
    assert not left, [member.as_dict(["pid", "name", "status"]) for member in left]
