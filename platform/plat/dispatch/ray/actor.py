"""A task in Ray: a detached actor that holds the task's resources while its child process executes the runs.

If its worker or node is lost, Ray restarts the actor, which resumes from the newest checkpoints. The actor ends itself
when its task has ended.

A task on several nodes has a placement group of its name, created with the actor and removed at its end; `Bridge.names`
removes groups of actors that could not. Ray gives a group all its nodes at once or none, so two tasks never block each
other. The group is detached, because the submitting command may end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.dispatch.ray.ray_refresh import actor_name
from plat.errors import PlatError
from plat.processes import identification
from plat.processes.own_process import without_dropped
from plat.processes.process_tree import signal_when_parent_ends
from plat.store.coordination.submissions import Submission
from plat.store.disk.durable import append_line, read_json
from plat.store.run_directory import lease
from plat.trainer.allocation import OTHER_MACHINES
from plat.words.outcomes import INTERRUPTED, failed
from plat.words.states import LeaseState

PREFIX = "plat-"  # of the names of submissions, and therefore of their actors and groups
SAVING = 120.0  # seconds that runs have to save after their parent process was killed


class TaskActor:
    """Execute task `number` of the submission in `folder`.

    environment  added to the environment that the process inherits
    directory    working directory of the submitting command, where a user's own modules are searched
    nodes        number of nodes of the task's placement group; 1: no group, the task is on one node
    """

    def __init__(
        self, folder: str, number: int, environment: Mapping[str, str], directory: str, nodes: int = 1
    ) -> None:
        self._submission = Submission(Path(folder))
        self._number = number
        self._environment = dict(environment)
        self._nodes = nodes
        self._directory = directory if os.path.isdir(directory) else None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()
        threading.Thread(target=self._work, daemon=True).start()

    def stop(self) -> None:
        """Ask the runs to save their state and stop."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)

    def _work(self) -> None:
        """Execute the task, note that it is over, and end the actor; a failure releases its resources, too.

        The kernel asks the process to stop when this thread ends, with the worker or before (see `main`).
        """
        import ray

        try:
            code = self._run_process()
            if code:
                self._wait_for_runs()
            self._note_over(code)
        finally:
            if self._nodes > 1:
                remove_group(actor_name(self._submission, self._number))
            ray.kill(ray.get_runtime_context().current_actor, no_restart=True)

    def _note_over(self, code: int) -> None:
        if code:
            self._submission.note_over(failed("node"), f"its process ended with code {code}", self._number)
        elif self._stopped:
            self._submission.note_over(INTERRUPTED, "asked to stop", self._number)
        else:
            self._submission.note_over(None, "its process has ended", self._number)

    def _run_process(self) -> int:
        """Return the exit code of the process that executes the runs; 0 if a stop was requested before its start."""
        starts = self._submission.starts(self._number)
        restart = len(starts.read_text().splitlines()) if starts.exists() else 0
        append_line(starts, {**identification.this_process(), "time": time.time()})
        inherited = without_dropped(os.environ)
        inherited.pop("RAY_ADDRESS", None)  # a run starts its own Ray on this node
        arguments = [str(self._submission.root), str(self._number), str(restart)]
        with open(self._submission.root / f"task-{self._number}.txt", "ab") as log:
            with self._lock:
                if self._stopped:
                    return 0
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-u", "-m", "plat.dispatch.ray.actor", *arguments, str(os.getpid())],
                    env={**inherited, **self._environment, **self._other_machines()},
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            return self._process.wait()

    def _other_machines(self) -> dict[str, str]:
        """Return variables that tell the runs how to start a program on the task's other nodes; {} on one node."""
        if self._nodes == 1:
            return {}
        import ray

        address = ray.get_runtime_context().gcs_address
        group = actor_name(self._submission, self._number)
        command = [sys.executable, "-P", "-m", "plat.dispatch.ray.elsewhere", address, group]
        return {OTHER_MACHINES: json.dumps({"machines": self._nodes, "command": command})}

    def _wait_for_runs(self) -> None:
        """Wait at most SAVING seconds until workers of the dead process on this machine have saved and ended."""
        home = self._submission.home
        run_ids = (read_json(self._submission.manifest) or {"tasks": []})["tasks"][self._number]
        until = time.monotonic() + SAVING
        while time.monotonic() < until and any(lease.state(home.run(run_id)) == LeaseState.LIVE for run_id in run_ids):
            time.sleep(0.2)


def group_options(name: str, nodes: int, bundle: dict[str, float]) -> dict[str, Any]:
    """Make the group `name` with `nodes` bundles on different nodes; return the options of an actor on its first node.

    An existing group of this name is used unchanged.
    """
    from ray.util import get_placement_group, placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    try:
        group = get_placement_group(name)
    except ValueError:
        group = placement_group([bundle] * nodes, strategy="STRICT_SPREAD", name=name, lifetime="detached")
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)}


def remove_group(name: str) -> None:
    """Release a task's nodes and end what runs on them; do nothing if the task has no group."""
    from ray.util import get_placement_group, remove_placement_group

    with contextlib.suppress(ValueError):
        remove_placement_group(get_placement_group(name))


def groups() -> set[str]:
    """Return the names of the groups of tasks, in all namespaces."""
    from ray.util import placement_group_table

    table = placement_group_table().values()
    return {group["name"] for group in table if group["state"] != "REMOVED" and group["name"].startswith(PREFIX)}


def main(folder: str, number: int, restart: int, parent: int) -> int:
    """Execute the runs of a task in the actor's child process; return the exit code: 1 if it could not begin.

    The kernel sends SIGTERM when the actor's process ends, for any reason; the runs then save a checkpoint and stop.
    """
    signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the request above
        return 1
    from plat.dispatch.task import Task  # not in the process of the actor

    try:
        Task(Submission(Path(folder)), number, restart).do_runs(signal.SIGTERM, signal.SIGINT)
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
