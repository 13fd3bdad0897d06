"""A run with verl that is killed, or asked to stop, at the worst moments: nothing is left, and its history is the same.

The moments are seen from outside: in the events, in the folder of checkpoints, and in the titles of Ray's processes,
which name the method that they execute. The run is frozen at the moment, so a slow machine cannot miss it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from verl_processes import (
    GUARD,
    LIMIT,
    PPO,
    Attempt,
    freeze,
    history,
    read_events,
    run,
    said,
    started,
    tables,
    thaw,
    title,
)

from plat.processes.identification import process_start
from plat.store.disk.durable import read_json

pytestmark = pytest.mark.verl

Moment = Callable[[Attempt], bool]


def logged(attempt: Attempt, step: int) -> bool:
    return any(event["step"] == step and "metrics" in event for event in read_events(attempt.folder / "events.jsonl"))


def rolled_out(attempt: Attempt, step: int) -> bool:
    return any(
        event["step"] == step and event.get("table") == "reward_matrix"
        for event in read_events(attempt.folder / "events.jsonl")
    )


def restored_step(attempt: Attempt) -> int | None:
    meta = read_json(attempt.folder / "attempt.json") or {}
    return meta.get("restored_step")


def starting(there: str, not_yet: str) -> Moment:
    """The run starts: among its processes is one of the first title, and none of the second."""

    def is_now(attempt: Attempt) -> bool:
        titles = " ".join(map(title, attempt.driver.children(recursive=True)))
        return there in titles and not_yet not in titles

    return is_now


def rollout(step: int) -> Moment:
    """The policy of the step before is saved, or restored, and the batch of the step is not there yet."""

    def is_now(attempt: Attempt) -> bool:
        before = (attempt.folder / "checkpoints" / f"step-{step - 1:06d}").is_dir() or restored_step(
            attempt
        ) == step - 1
        if not before or rolled_out(attempt, step):
            return False
        return any("HFServer" in title(child) for child in attempt.driver.children(recursive=True))

    return is_now


def update(step: int) -> Moment:
    """The batch is there, the step is not logged, and a training worker is taking a step of its optimiser."""

    def is_now(attempt: Attempt) -> bool:
        if not rolled_out(attempt, step) or logged(attempt, step):
            return False
        return any(re.search("update_actor|train_mini_batch", title(worker)) for worker in attempt.workers())

    return is_now


def checkpoint(step: int) -> Moment:
    """The step is logged, and a part of verl's files is in a folder that does not have its name yet."""

    def is_now(attempt: Attempt) -> bool:
        parts = (attempt.folder / "checkpoints").glob(".tmp-*/files/actor/*")
        return logged(attempt, step) and any(parts)

    return is_now


def shared_memory(processes: list[psutil.Process]) -> set[Path]:
    """The files in /dev/shm that these processes have in their memory, and that have a name."""
    paths = {Path(line.split()[-1]) for process in processes for line in maps(process) if "/dev/shm/" in line}
    return {path for path in paths if path.exists()}


def lives(process: psutil.Process) -> bool:
    """Whether a process runs; a zombie does not."""
    return process.is_running() and process_start(process.pid) is not None


def maps(process: psutil.Process) -> list[str]:
    try:
        return Path(f"/proc/{process.pid}/maps").read_text().splitlines()
    except OSError:
        return []


def kill(attempt: Attempt) -> None:
    """Kill a run that works: all of Ray is there."""
    names = " ".join(map(title, attempt.driver.children(recursive=True)))
    assert all(name in names for name in ("raylet", "gcs_server", "ray::DashboardAgent", "ray::HFServer", GUARD)), names
    kill_at_start(attempt)


def kill_at_start(attempt: Attempt) -> None:
    """Kill the run's process and everything above it at once; once its guard is done, nothing is left."""
    driver = attempt.driver
    family = [driver, *driver.children(recursive=True)]
    memory = shared_memory(family)
    (guard,) = [process for process in family if GUARD in title(process)]
    os.killpg(attempt.command.pid, signal.SIGKILL)
    driver.kill()
    attempt.command.wait()
    until = time.monotonic() + LIMIT
    while lives(guard):
        assert time.monotonic() < until
        time.sleep(0.05)
    left = [(title(process), process.status()) for process in family if lives(process)]
    assert not left, left
    assert not list(Path("/tmp").glob(f"plat-verl-{driver.pid}-*"))
    assert not [path for path in memory if path.exists()]


def stop(attempt: Attempt) -> None:
    """Ctrl-C; the frozen run has got the request before it goes on."""
    attempt.command.send_signal(signal.SIGINT)
    until = time.monotonic() + LIMIT
    while not is_asked(attempt.driver.pid):
        assert time.monotonic() < until
        time.sleep(0.01)
    thaw(attempt)
    attempt.command.wait(LIMIT)
    outcome = json.loads((attempt.folder / "outcome.json").read_text())
    assert outcome["outcome"] == "interrupted", said(attempt.home)
    saved = max((attempt.folder / "checkpoints").glob("step-*"))
    assert int(saved.name.removeprefix("step-")) == outcome["step"], "the work so far is saved"


def is_asked(pid: int) -> bool:
    """Whether a SIGTERM waits for a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = [int(mask, 16) for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.MULTILINE)]
    return any(mask >> (signal.SIGTERM - 1) & 1 for mask in pending)


# Measured with the log-probabilities that the rollout gave. Their last bits depend on which responses are generated
# together, and so on the machine's load; nothing is learnt from them.
FROM_ROLLOUT = ("rollout/entropy", "mi/score_gap")


def go_on(home: Path, undisturbed: Path) -> None:
    """Do the rest of a run; its history is that of the undisturbed one, to the last bit but for FROM_ROLLOUT."""
    result = run(home, *PPO)
    assert result["outcome"] == "finished" and result["step"] == 3
    expected, resumed = history(undisturbed), history(home)
    assert resumed.keys() == expected.keys()
    differing = {key: (value, resumed[key]) for key, value in expected.items() if not same(key[1], value, resumed[key])}
    assert not differing
    assert tables(home) == tables(undisturbed)


def same(name: str, expected: float, resumed: float) -> bool:
    rounding = 1e-5 if name in FROM_ROLLOUT else 0.0
    return resumed == pytest.approx(expected, rel=rounding, abs=rounding, nan_ok=True)


def test_kills_and_a_stop_at_the_worst_moments(tmp_path: Path, undisturbed: Path) -> None:
    disturbances = [
        (starting("gcs_server", "ray::WorkerDict"), kill_at_start),
        (starting("ray::WorkerDict", "ray::HFServer"), kill_at_start),
        (rollout(1), kill),
        (update(1), stop),
        (update(2), kill),
        (checkpoint(3), kill),
    ]
    for moment, disturb in disturbances:
        attempt = started(tmp_path, *PPO)
        freeze(attempt, moment)
        disturb(attempt)
    assert list(attempt.folder.glob("checkpoints/.tmp-*")), "half a checkpoint is left, which nobody may use"
    go_on(tmp_path, undisturbed)
    assert not list(tmp_path.glob("runs/*/*/attempts/*/checkpoints/.tmp-*"))


@pytest.mark.chaos
def test_stops_at_the_other_moments_and_a_kill_that_the_sweep_survives(tmp_path: Path, undisturbed: Path) -> None:
    for moment in (rollout(1), checkpoint(2)):
        attempt = started(tmp_path, *PPO)
        freeze(attempt, moment)
        stop(attempt)
    attempt = started(tmp_path, *PPO)
    freeze(attempt, update(3))
    driver = attempt.driver
    family = [driver, *driver.children(recursive=True)]
    driver.kill()  # what is above it tries the run again by itself
    assert attempt.command.wait(LIMIT) == 0, said(tmp_path)
    assert not [title(process) for process in family if lives(process)]
    assert not list(Path("/tmp").glob(f"plat-verl-{driver.pid}-*"))
    go_on(tmp_path, undisturbed)
