"""A trial of Tune: it executes one task of a submission, whose runs are in a child process.

Only a lost worker or node fails a trial, and Tune then starts it again; its runs resume from their newest checkpoints.
A run that fails does not fail its trial. The trial reports each evaluation of its runs to Tune: the headline metric,
the step, and the run's id.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from plat.dispatch.setting import STOP
from plat.errors import PlatError
from plat.processes import identification
from plat.processes.own_process import without_dropped
from plat.processes.process_tree import signal_when_parent_ends
from plat.store.coordination.submissions import Submission
from plat.store.disk.durable import append_line
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import headline_of, load_meta
from plat.store.run_directory.spool import read_events
from plat.trainer.allocation import OTHER_MACHINES
from plat.words.outcomes import INTERRUPTED, failed
from plat.words.states import LeaseState

TICK = 0.5  # seconds between two looks at the files of the runs
# File in the folder of a submission: its runs are to end at once.
KILL = "kill"
SAVING = 120.0  # seconds that runs have to save after their parent process was killed


def execute(config: Mapping[str, Any]) -> None:
    """Execute a task: the trainable.

    config  "submission" (its folder), "task" (a number), "needs" (see `resources`)
    """
    submission, number = Submission(Path(config["submission"])), int(config["task"])
    runs = [Evaluations(submission.home.run(run_id)) for run_id in submission.runs_of(number)]
    execute_task(config, lambda: (result for each in runs for result in each.new()))


def execute_task(config: Mapping[str, Any], new_results: Callable[[], Iterable[dict[str, Any]]]) -> None:
    """Execute the task of a config, as `execute`; report what `new_results` returns, which is called every TICK."""
    from ray import tune

    submission, number = Submission(Path(config["submission"])), int(config["task"])
    if submission.is_over(number):
        return
    asked = (submission.root / STOP).exists()
    code: int | None = 0
    if not asked:
        process = _start(submission, number, int(config["needs"]["nodes"]))
        wishes = {submission.root / STOP: signal.SIGTERM, submission.root / KILL: signal.SIGINT}
        while (code := _wait(process, TICK)) is None:
            for wish in [wish for wish in wishes if wish.exists()]:
                process.send_signal(wishes.pop(wish))
                asked = True
            for result in new_results():
                tune.report(result)
    if code:
        _wait_for_runs(submission, number)
    if asked:
        submission.note_over(INTERRUPTED, "asked to stop", number)
    elif code:
        submission.note_over(failed("node"), f"its process ended with code {code}", number)
    else:
        submission.note_over(None, "its process has ended", number)
    for result in new_results():
        tune.report(result)


def resources(config: Mapping[str, Any]) -> Any:
    """Return what a trial requests of Ray: a bundle for each of its nodes, each on another node."""
    from ray import tune

    needs = config["needs"]
    bundle = {name: needs[name] for name in ("CPU", "GPU", "memory") if needs[name]}
    return tune.PlacementGroupFactory([bundle] * needs["nodes"], strategy="STRICT_SPREAD")


class Evaluations:
    """The evaluations of one run that were not given yet."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._headline = ""
        self._offsets: dict[int, int] = {}  # attempt -> bytes of its events that were read

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield for each new evaluation the headline metric under its name, "step" and "run"."""
        for attempt in self._paths.attempts():
            self._headline = self._headline or headline_of(load_meta(self._paths))
            events, self._offsets[attempt.number] = read_events(attempt.events, self._offsets.get(attempt.number, 0))
            for event in events:
                if self._headline in event.metrics:
                    value = event.metrics[self._headline]
                    yield {self._headline: value, "step": event.step, "run": self._paths.root.name}


def _wait(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Return the exit code of a process, None if it has not ended after so many seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(seconds)
    return None


def _start(submission: Submission, number: int, nodes: int) -> subprocess.Popen[bytes]:
    """Note the start of the task, and start the process that executes its runs.

    The kernel asks this process to stop when the calling thread ends, with Ray's worker or before (see `main`).
    """
    starts = submission.starts(number)
    restart = len(starts.read_text().splitlines()) if starts.exists() else 0
    append_line(starts, {**identification.this_process(), "time": time.time()})
    inherited = without_dropped(os.environ)
    inherited.pop("RAY_ADDRESS", None)  # a run starts its own Ray on this node
    directory = str(submission.facts().get("directory", ""))
    arguments = [str(submission.root), str(number), str(restart), str(os.getpid())]
    with open(submission.root / f"task-{number}.txt", "ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-u", "-m", "plat.dispatch.ray.trial", *arguments],
            env={**inherited, **_other_machines(nodes)},
            cwd=directory if os.path.isdir(directory) else None,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _other_machines(nodes: int) -> dict[str, str]:
    """Return variables that tell the runs how to start a program on the task's other nodes; {} on one node."""
    if nodes == 1:
        return {}
    import ray
    from ray.util import get_current_placement_group

    group = base64.b64encode(pickle.dumps(get_current_placement_group())).decode()
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-P", "-m", "plat.dispatch.ray.elsewhere", address, group]
    return {OTHER_MACHINES: json.dumps({"machines": nodes, "command": command})}


def _wait_for_runs(submission: Submission, number: int) -> None:
    """Wait at most SAVING seconds until workers of the dead process on this machine have saved and ended."""
    paths = [submission.home.run(run_id) for run_id in submission.runs_of(number)]
    until = time.monotonic() + SAVING
    while time.monotonic() < until and any(lease.state(each) == LeaseState.LIVE for each in paths):
        time.sleep(0.2)


def main(folder: str, number: int, restart: int, parent: int) -> int:
    """Execute the runs of a task in the trial's child process; return the exit code: 1 if it could not begin.

    The kernel sends SIGTERM when the trial's process ends, for any reason; the runs then save a checkpoint and stop.
    """
    signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the request above
        return 1
    from plat.dispatch.task import Task  # not in the process of the trial

    try:
        Task(Submission(Path(folder)), number, restart).do_runs(signal.SIGTERM, signal.SIGINT)
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
