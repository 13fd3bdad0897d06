"""`--notify CMD`: a command of the user's, called when a run fails and when a sweep ends.

The command is given to the shell, and learns from its environment what has happened:

    PLAT_EVENT      run_failed | sweep_ended
    PLAT_HOME       the home directory
    PLAT_FILES      the names of the experiment files
    PLAT_RUN, PLAT_RUN_ID, PLAT_OUTCOME, PLAT_REASON     of the run that failed
    PLAT_RUNS, PLAT_DONE, PLAT_FAILED, PLAT_EXIT_CODE    of the sweep that ended

It never fails the sweep: what goes wrong with it is a warning, and after PATIENCE seconds it is ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.store.home import Home
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from plat.dispatch.report import SweepReport
    from plat.spec.experiment import Experiment, Run

PATIENCE = 30.0  # seconds that the last commands get when everything else is done

NotifyOption = Annotated[
    str | None,
    typer.Option(
        "--notify",
        metavar="CMD",
        help="A command to call when a run fails and when all is over (PLAT_EVENT says which).",
    ),
]


class Notifier:
    """Calls the command; without one, does nothing."""

    def __init__(self, command: str | None, home: Home, experiments: Sequence[Experiment]) -> None:
        self._command = command
        self._home = home
        self._files = " ".join(experiment.name for experiment in experiments)
        self._calls: list[subprocess.Popen[bytes]] = []
        self._trouble: list[str] = []

    def run_ended(self, run: Run) -> None:
        """A run has ended; tell when it failed."""
        if self._command is None:
            return
        state = run_state(self._home.run(run.id))
        if state.state == "failed":
            facts = {"RUN": run.name, "RUN_ID": run.id, "OUTCOME": state.outcome or "", "REASON": state.reason}
            self._call("run_failed", facts)

    def sweep_ended(self, report: SweepReport, exit_code: int) -> None:
        """The sweep is over: tell, wait for the commands that still run, and warn of those that failed."""
        if self._command is None:
            return
        counts = report.counts()
        facts = {"RUNS": len(report.ends), "DONE": counts.get("done", 0), "FAILED": counts.get("failed", 0)}
        self._call("sweep_ended", {**{key: str(value) for key, value in facts.items()}, "EXIT_CODE": str(exit_code)})
        self._wait()
        for line in dict.fromkeys(self._trouble):
            print(f"warning: --notify: {line}", file=sys.stderr)

    def _call(self, event: str, facts: dict[str, str]) -> None:
        known = {"EVENT": event, "HOME": str(self._home.root), "FILES": self._files, **facts}
        plain = {f"PLAT_{key}": value.replace("\0", "") for key, value in known.items()}
        try:
            call = subprocess.Popen(
                self._command or "",
                shell=True,
                env={**os.environ, **plain},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the sweep, and the command ends with all that it has started
            )
            self._calls.append(call)
        except (OSError, ValueError) as error:
            self._trouble.append(f"the command could not be started: {error}")

    def _wait(self) -> None:
        limit = time.monotonic() + PATIENCE
        for call in self._calls:
            try:
                code = call.wait(max(0.0, limit - time.monotonic()))
                if code:
                    self._trouble.append(f"the command ended with exit code {code}")
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(call.pid, signal.SIGKILL)
                call.wait()
                self._trouble.append(f"the command took longer than {PATIENCE:.0f} s and was ended")
