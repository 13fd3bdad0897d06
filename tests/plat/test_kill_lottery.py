"""`kill -9` of a whole sweep at random moments, then the same command: the same bits as an undisturbed sweep.

Compared: the history of every run, the bytes of its final checkpoints, and the content of the MLflow store.
Two rounds in the ordinary suite; all twenty with `pytest -m chaos tests/plat/test_kill_lottery.py`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from store_dump import dump

from plat.store.home import Home
from plat.store.run_directory.history import run_history

SPEC = """\
title: Kill lottery
base: {scale: smoke, train.iterations: 8, train.checkpoint_every: 3, eval.every: 2, mi.every: 2}
matrix:
  task:
    countdown: {task: countdown}
    frozenlake: {task: frozenlake}
    pictures: {task: sokoban, model: qwen2.5-vl-3b, train.rendering: compact_image}
  algorithm: [ppo, dapo]
  filter: [none, top_p]
  seed: [0]
"""


def sweep(folder: Path, spec: Path, kill_after: float | None = None) -> int | None:
    """Run the sweep in a process group of its own; None when it was killed."""
    command = [sys.executable, "-m", "plat", "sweep", str(spec), "--home", str(folder), "--jobs", "2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PLAT_", "MLFLOW_"))}
    with (folder.parent / f"{folder.name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
        try:
            return process.wait(kill_after)
        except subprocess.TimeoutExpired:
            # Workers keep process groups of their own off the terminal's; they must notice, or die with, the parent.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def content(folder: Path) -> dict[str, Any]:
    home = Home(folder)
    contents: dict[str, Any] = {"store": without_provenance(dump(home.store_uri()))}
    for paths in home.all_runs():
        metrics, tables = run_history(paths)
        contents[paths.id] = {
            "metrics": sorted(
                (m.step, m.key, repr(m.value)) for m in metrics if not m.key.startswith(("time/", "mem/"))
            ),
            "tables": sorted((t.step, t.name, repr(t.data)) for t in tables),
            "checkpoints": final_checkpoint(paths),
        }
    return contents


def without_provenance(content: Any) -> Any:
    """Which commit ran may change while a test runs: the checkout belongs to whoever edits it. The page of a report
    names its date and command."""
    if not isinstance(content, dict):
        return content
    code = ("code.", "plat.code.", "mlflow.source.git.")
    return {
        key: without_provenance(value)
        for key, value in content.items()
        if not str(key).startswith(code) and not str(key).endswith(("report.html", "report.md"))
    }


def final_checkpoint(paths: Any) -> dict[str, bytes]:
    """Tensors of the newest checkpoint, whichever attempt wrote it."""
    newest = max(
        (step for attempt in paths.attempts() for step in attempt.checkpoints.glob("step-*")), key=lambda p: p.name
    )
    return {newest.name: (newest / "tensors.safetensors").read_bytes()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], float]:
    folder = tmp_path_factory.mktemp("lottery")
    spec = folder / "lottery.yaml"
    spec.write_text(SPEC)
    started = time.monotonic()
    assert sweep(folder / "home", spec) == 0, (folder / "home.log").read_text()
    return spec, content(folder / "home"), time.monotonic() - started


def play(undisturbed: tuple[Path, dict[str, Any], float], tmp_path: Path, round_number: int) -> None:
    spec, wanted, duration = undisturbed
    rng = random.Random(round_number)
    home = tmp_path / "home"
    kills = 0
    while (code := sweep(home, spec, kill_after=rng.uniform(0.2, duration * 0.9) if kills < 3 else None)) is None:
        kills += 1
    assert code == 0, (tmp_path / "home.log").read_text()[-4000:]
    actual = content(home)
    assert actual.keys() == wanted.keys()
    for name in wanted:
        different = sorted(differences(actual[name], wanted[name]))[:10]
        assert not different, f"{name} after {kills} kills in round {round_number}: {different}"


def differences(actual: Any, wanted: Any, where: str = "") -> Iterator[str]:
    """Paths at which two nested contents differ."""
    if isinstance(actual, dict) and isinstance(wanted, dict):
        for key in actual.keys() | wanted.keys():
            yield from differences(actual.get(key), wanted.get(key), f"{where}/{key}")
    elif actual != wanted:
        yield f"{where}: {str(actual)[:200]} instead of {str(wanted)[:200]}"


@pytest.mark.parametrize("round_number", [0, pytest.param(1, marks=pytest.mark.long)])
def test_a_killed_sweep_ends_with_the_same_bits(
    undisturbed: tuple[Path, dict[str, Any], float], tmp_path: Path, round_number: int
) -> None:
    play(undisturbed, tmp_path, round_number)


@pytest.mark.chaos
@pytest.mark.parametrize("round_number", range(2, 22))
def test_twenty_more_rounds(undisturbed: tuple[Path, dict[str, Any], float], tmp_path: Path, round_number: int) -> None:
    play(undisturbed, tmp_path, round_number)
