"""A task in Ray: a detached actor that holds the task's resources while a process of its own does the runs.

Ray starts the actor again when its worker or its node is lost; the next start goes on from the newest checkpoints.
The actor ends itself when its task has ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from plat.dispatch.ray.groups import remove_group
from plat.dispatch.ray.refresh import actor_name
from plat.runner.inherited import without_dropped
from plat.store import process
from plat.store.durable import append_line, read_json
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.submissions import Submission
from plat.trainer.allocation import OTHER_MACHINES

SAVING = 120.0  # seconds that runs have to save when the process that did them was killed


class TaskActor:
    """Does task `number` of the submission in `folder`.

    environment  added to what its process inherits
    directory    the working directory of whoever asked, in which a user's own modules are looked for
    nodes        how many nodes the task's placement group has; 1: it has none, and the task is on one node
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
        """Do the task, note that it is over, and leave; also when something fails, so that nothing is held for ever.

        The kernel asks the process to stop when this thread ends, with the worker or before (see `task`).
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
            self._submission.note_over("failed:node", f"its process ended with code {code}", self._number)
        elif self._stopped:
            self._submission.note_over("interrupted", "asked to stop", self._number)
        else:
            self._submission.note_over(None, "its process has ended", self._number)

    def _run_process(self) -> int:
        """The exit code of the process that does the runs; 0 as well when it was not needed any more."""
        starts = self._submission.starts(self._number)
        restart = len(starts.read_text().splitlines()) if starts.exists() else 0
        append_line(starts, {**process.this_process(), "time": time.time()})
        inherited = without_dropped(os.environ)
        inherited.pop("RAY_ADDRESS", None)  # its place is here
        arguments = [str(self._submission.root), str(self._number), str(restart)]
        with open(self._submission.root / f"task-{self._number}.txt", "ab") as log:
            with self._lock:
                if self._stopped:
                    return 0
                self._process = subprocess.Popen(
                    [sys.executable, "-u", "-m", "plat.dispatch.ray.task", *arguments, str(os.getpid())],
                    env={**inherited, **self._environment, **self._other_machines()},
                    cwd=self._directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            return self._process.wait()

    def _other_machines(self) -> dict[str, str]:
        """What tells the runs how to start a program on the task's other nodes."""
        if self._nodes == 1:
            return {}
        import ray

        address = ray.get_runtime_context().gcs_address
        group = actor_name(self._submission, self._number)
        command = [sys.executable, "-m", "plat.dispatch.ray.elsewhere", address, group]
        return {OTHER_MACHINES: json.dumps({"machines": self._nodes, "command": command})}

    def _wait_for_runs(self) -> None:
        """Wait until what the dead process has left behind on this machine has saved and let go of its runs."""
        home = Home(self._submission.root.parent.parent)
        run_ids = (read_json(self._submission.manifest) or {"tasks": []})["tasks"][self._number]
        until = time.monotonic() + SAVING
        while time.monotonic() < until and any(lease.state(home.run(run_id)) == "live" for run_id in run_ids):
            time.sleep(0.2)
