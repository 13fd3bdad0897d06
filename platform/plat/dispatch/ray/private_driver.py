"""The private Ray of a command: a child process that holds it, and the Tuner (see `driver`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.ray.cluster import Cluster
from plat.processes.own_process import handle_of, wait_for_end
from plat.store.coordination.submissions import Submission


class PrivateDriver:
    """A private Ray on this machine. It ends with this process, after its runs have saved.

    module  the program, `plat.dispatch.ray.driver` or one that is built on it
    jobs    the most trials at a time; None: as many as fit
    within  seconds that it has to start; else SchedulerError
    log     file that collects the output of Ray
    """

    def __init__(self, module: str, jobs: int | None, within: float, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = ["--private", str(jobs or 0), str(within)]
        with open(log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-u", "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                env={"RAY_BACKEND_LOG_LEVEL": "error", **os.environ, "PYTHONWARNINGS": "ignore"},
                start_new_session=True,
            )
        try:
            assert self._process.stdout is not None
            with self._process.stdout as output:
                facts = json.loads(output.readline())
        except ValueError as error:  # it has ended without a line
            self.close(10.0)
            fix = "the log says why; `ray start --head` tries it by hand"
            raise SchedulerError("Ray did not start on this machine", where=str(log), fix=fix) from error
        self.cluster = Cluster(**facts)

    def submit(self, submission: Submission) -> str:
        """Give the Tuner the tasks of a submission; return the job number: its name. SchedulerError if it has ended."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{submission.root.absolute()}\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise SchedulerError(f"the private Ray has ended: {error}", certain=True) from error
        return submission.name

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        """Ask the runs to save and stop; then the process ends."""
        assert self._process.stdin is not None
        if not self._process.stdin.closed:
            self._process.stdin.close()

    def close(self, patience: float) -> None:
        """Stop, and wait at most `patience` seconds for the end; then kill it and its Ray."""
        self.stop()
        handle = handle_of(self._process.pid)
        if handle is not None and self._process.poll() is None:
            if not wait_for_end(handle, patience):
                os.killpg(self._process.pid, signal.SIGKILL)
            os.close(handle)
        self._process.poll()
