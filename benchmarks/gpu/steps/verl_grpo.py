"""Train with verl for three iterations of GRPO, with a SIGKILL after the checkpoint of the second, and a resume."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from plat.spec.expansion.experiment import build_run
from plat.store.home import Home
from plat.store.run_directory.checkpoint import list_checkpoints
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.spool import read_events
from steps.step import Step
from steps.verl_options import MEMORY, options

ITERATIONS = {False: 3, True: 8}  # by --tiny, where an iteration takes hardly longer than a kill
SHOWN = ("mi/", "actor/", "rollout/")  # metrics
PATIENCE = 400.0  # seconds for the second iteration; the step's limit comes first


def main() -> None:
    step = Step("verl_grpo")
    home = Home(step.folder / "home-verl")
    chosen = [*options(step, "grpo", ITERATIONS[step.tiny], mi_every=1), "filter=top_p"]
    paths = home.run(build_run(chosen).id)
    command = [sys.executable, "-m", "plat", "run", *chosen, "--home", str(home.root)]
    if not step.has("killed"):
        shutil.rmtree(home.root, ignore_errors=True)  # of a call that was cut off
    step.measure("killed", lambda: killed(paths, command), MEMORY, True)
    if step.has("killed"):
        step.measure("resumed", lambda: resumed(paths, command), MEMORY, True)
    if step.has("resumed"):
        shutil.rmtree(home.root, ignore_errors=True)  # checkpoints of gigabytes


def killed(paths: RunPaths, command: list[str]) -> dict[str, Any]:
    """Start the run and kill it after the checkpoint of the second iteration; return the seconds of its parts."""
    started = time.monotonic()
    process = subprocess.Popen(command)
    try:
        first = _wait_for_step(paths, process, 1) - started
        _wait_for_checkpoint(paths, process)
    finally:
        _kill(paths, process)
    return {
        "seconds until the first iteration's metrics": first,
        "step at the kill": max(_steps(paths)),
        "seconds of iterations": _seconds(paths),
    }


def resumed(paths: RunPaths, command: list[str]) -> dict[str, Any]:
    """Give the same command again; return where it went on, the seconds of its parts, and its last metrics."""
    began = time.monotonic()
    before = len(paths.attempts())
    subprocess.run(command, check=True)
    if len(paths.attempts()) == before:
        raise RuntimeError("the run was over before it was killed: there was nothing to resume")
    newest = _events(paths.attempts()[-1].events)
    last = {name: value for metrics in newest.values() for name, value in metrics.items()}
    return {
        "seconds of the resumed attempt": time.monotonic() - began,
        "first step after the resume": min(newest),
        "last step": max(newest),
        "seconds of iterations": _seconds(paths),
        "metrics": {name: value for name, value in sorted(last.items()) if name.startswith(SHOWN)},
    }


def _seconds(paths: RunPaths) -> dict[str, float]:
    """Return step -> seconds of its iteration, of all attempts."""
    found = {}
    for attempt in paths.attempts():
        found |= {str(at): one["time/step"] for at, one in _events(attempt.events).items() if "time/step" in one}
    return found


def _kill(paths: RunPaths, process: subprocess.Popen[bytes]) -> None:
    """Kill the command and the process that trains."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    for attempt in paths.attempts():
        with contextlib.suppress(OSError, ValueError, KeyError):
            os.kill(json.loads(attempt.meta.read_text())["pid"], signal.SIGKILL)


def _events(spool: Path) -> dict[int, dict[str, float]]:
    """Return step -> metrics of an attempt."""
    steps: dict[int, dict[str, float]] = {}
    for event in read_events(spool)[0]:
        if event.metrics and event.step > 0:
            steps.setdefault(event.step, {}).update(event.metrics)
    return steps


def _steps(paths: RunPaths) -> list[int]:
    return [number for attempt in paths.attempts() for number in _events(attempt.events)] or [0]


def _wait_for_step(paths: RunPaths, process: subprocess.Popen[bytes], number: int) -> float:
    """Return the time at which the metrics of a step are there. Raises RuntimeError if the run ends before."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if max(_steps(paths)) >= number:
            return time.monotonic()
        if process.poll() is not None:
            raise RuntimeError(f"the run ended with code {process.returncode} before step {number}: see the log")
        time.sleep(0.2)
    raise RuntimeError(f"step {number} has not come within {PATIENCE:.0f} s")


def _wait_for_checkpoint(paths: RunPaths, process: subprocess.Popen[bytes]) -> None:
    _wait_for_step(paths, process, 2)
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        if any(at >= 2 for attempt in paths.attempts() for at, _ in list_checkpoints(attempt.checkpoints)):
            return
        time.sleep(0.2)


if __name__ == "__main__":
    main()
