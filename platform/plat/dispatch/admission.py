"""Which runs a sweep has to do, and the directories it makes for them.

Promised: a finished run is never done again; a run that failed for a reason that would repeat (FINAL) is left alone
unless `retry`; a run that a scheduler has is left to it, unless the sweep's own dispatcher can follow it there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.dispatch.report import RunEnd
from plat.runner.failures import FINAL
from plat.store.home import Home, RunPaths
from plat.store.run_directory.creation import create
from plat.store.run_directory.files import config_changed_since_result, set_damaged_config_aside
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run


class Admission:
    """Judges runs before they are handed to a dispatcher.

    experiments  the files that ask, noted in the meta.json of their runs
    follows      the dispatcher follows runs that a scheduler has, and runs whose owner it can ask a scheduler about
    trouble      what is found damaged is said here
    """

    def __init__(
        self,
        home: Home,
        experiments: Sequence[Experiment],
        trouble: list[str],
        *,
        steal: bool = False,
        retry: bool = False,
        follows: bool = False,
    ) -> None:
        self._home = home
        self._trouble = trouble
        self._steal = steal
        self._retry = retry
        self._follows = follows
        self._asked: dict[str, list[Experiment]] = {}
        for experiment in experiments:
            for run in experiment.runs:
                self._asked.setdefault(run.id, []).append(experiment)

    def judge(self, run: Run) -> RunEnd:
        """How a run stands; "missing" means that it is to be done now. The directory of a done run is mended."""
        end = self._standing(run)
        if end.state == "done":
            if config_changed_since_result(self._home.run(run.id)):
                self.make(run)
            else:
                self._make_directory(run)
        return end

    def make(self, run: Run) -> RunPaths:
        """The run's directory, with every file that asks for it noted, and a config.yaml that can be read: a damaged
        or edited one is set aside and written again."""
        with contextlib.suppress(OSError):  # then making the directory fails, too, and says why
            aside = set_damaged_config_aside(self._home.run(run.id))
            if aside is not None:
                text = f"{run.name}: config.yaml was damaged or edited; it is now {aside}, and was written again"
                self._trouble.append(text)
        return self._make_directory(run)

    def _standing(self, run: Run) -> RunEnd:
        paths = self._home.run(run.id)
        now = run_state(paths)
        if now.damage:
            self._trouble.append(f"{run.name}: {now.damage} ({paths.result}): it is set aside, and the run goes on")
        if now.state == "done":
            return RunEnd(run, now.state, now.outcome, now.reason)
        if now.state == "unknown" and not (self._steal or self._follows):
            return RunEnd(run, now.state, now.outcome, now.reason or "held from elsewhere; take it over with --steal")
        if now.state == "queued" and not self._follows:
            return RunEnd(run, now.state, None, now.reason)
        if now.state == "failed" and now.outcome in FINAL and not self._retry:
            return RunEnd(run, "failed", now.outcome, now.reason)
        return RunEnd(run, "missing")

    def _make_directory(self, run: Run) -> RunPaths:
        paths = self._home.run(run.id)
        for experiment in self._asked.get(run.id, ()):
            paths = create(self._home, run, experiment.name, paper=experiment.paper)
        return paths if run.id in self._asked else create(self._home, run, "")
