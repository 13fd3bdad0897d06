"""`--notify CMD`: call a shell command when a run fails and when a sweep ends, with these environment variables:

    PLAT_EVENT      run_failed | sweep_ended
    PLAT_HOME       the home directory
    PLAT_FILES      the names of the experiment files
    PLAT_RUN, PLAT_RUN_ID, PLAT_OUTCOME, PLAT_REASON     of the run that failed
    PLAT_RUNS, PLAT_DONE, PLAT_FAILED, PLAT_EXIT_CODE    of the sweep that ended

A failing command gives a warning and never fails the sweep. A command that still runs PATIENCE seconds after the end
of the sweep is killed.
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
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.sweep_ends import SweepReport
    from plat.spec.expansion.experiment import Experiment, Run

PATIENCE = 30.0  # seconds that commands may still take after the sweep has ended

NotifyOption = Annotated[
    str | None,
    typer.Option("--notify", metavar="CMD", help="Command for each failed run and for the end (PLAT_EVENT)."),
]


class Notifier:
    """Calls the command, in the background; does nothing if there is none."""

    def __init__(self, command: str | None, home: Home, experiments: Sequence[Experiment]) -> None:
        self._command = command
        self._home = home
        self._files = " ".join(experiment.name for experiment in experiments)
        self._calls: list[subprocess.Popen[bytes]] = []
        self._trouble: list[str] = []

    def run_ended(self, run: Run) -> None:
        """Call the command if this run, which has ended, failed."""
        if self._command is None:
            return
        state = run_state(self._home.run(run.id))
        if state.state == RunStatus.FAILED:
            facts = {"RUN": run.name, "RUN_ID": run.id, "OUTCOME": state.outcome or "", "REASON": state.reason}
            self._call("run_failed", facts)

    def sweep_ended(self, report: SweepReport, exit_code: int) -> None:
        """Call the command, wait at most PATIENCE seconds for all calls, end the others, and warn of failed ones."""
        if self._command is None:
            return
        counts = report.counts()
        facts = {"RUNS": len(report.ends), "EXIT_CODE": exit_code}
        facts |= {state.name: counts.get(state, 0) for state in (RunStatus.DONE, RunStatus.FAILED)}
        self._call("sweep_ended", {key: str(value) for key, value in facts.items()})
        self._wait()
        for line in dict.fromkeys(self._trouble):
            print(f"warning: --notify: {line}", file=sys.stderr)

    def _call(self, event: str, facts: dict[str, str]) -> None:
        """Start the command, and go on without it; `facts` become variables PLAT_NAME of its environment."""
        known = {"EVENT": event, "HOME": str(self._home.root), "FILES": self._files, **facts}
        plain = {f"PLAT_{key}": value.replace("\0", "") for key, value in known.items()}
        try:
            call = subprocess.Popen(
                self._command or "",
                shell=True,
                env={**os.environ, **plain},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C reaches only the sweep; a kill reaches all its processes
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
