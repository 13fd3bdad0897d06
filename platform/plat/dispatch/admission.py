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
from plat.store.home import Home
from plat.store.index.runs import Description, descriptions, states
from plat.store.lost_records import Handed, handed_over, lost_record
from plat.store.run_directory.creation import create, lost_files
from plat.store.run_directory.files import config_changed_since_result, config_hash, set_damaged_config_aside
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import RunState

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

AT_ONCE = 5_000  # done runs whose descriptions are in memory at once


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
        self._handed: Handed | None = None  # asked for once, and only where a scheduler was ever used
        self._asked: dict[str, list[Experiment]] = {}
        for experiment in experiments:
            for run in experiment.runs:
                self._asked.setdefault(run.id, []).append(experiment)

    def judge(self, runs: Sequence[Run]) -> list[RunEnd]:
        """How runs stand; "missing" means that one is to be done now. The directories of done runs are mended."""
        standing = states(self._home, [run.id for run in runs])
        ends = [self._end(run, standing[run.id]) for run in runs]
        self._name_lost_records([end.run for end in ends if end.state == "missing"])
        done = [end.run for end in ends if end.state == "done"]
        for start in range(0, len(done), AT_ONCE):
            self._mend(done[start : start + AT_ONCE])
        return ends

    def _name_lost_records(self, runs: Sequence[Run]) -> None:
        """Say of which runs the record of a submission is damaged or gone: a scheduler may still have them."""
        if not runs or not self._home.submissions.is_dir():
            return
        if self._handed is None:
            self._handed = handed_over(self._home)
        for run in runs:
            if problem := lost_record(self._home.run(run.id), self._handed):
                self._trouble.append(f"{run.name}: {problem}, and the run is done")

    def _mend(self, done: Sequence[Run]) -> None:
        """Make sure that the directories of some done runs are whole, and name every file that asks for them."""
        known = descriptions(self._home, [run.id for run in done])
        for run in done:
            paths = self._home.run(run.id)
            if config_changed_since_result(paths):
                self.make(run)
            elif not self._is_up_to_date(run, paths, known[run.id]):
                self._make_directory(run)

    def make(self, run: Run) -> RunPaths:
        """The run's directory, with every file that asks for it noted, and a config.yaml that can be read: a damaged
        or edited one is set aside and written again."""
        aside = None
        with contextlib.suppress(OSError):  # then making the directory fails, too, and says why
            aside = set_damaged_config_aside(self._home.run(run.id))
            if aside is not None:
                text = f"{run.name}: config.yaml was damaged or edited; it is now {aside}, and was written again"
                self._trouble.append(text)
        return self._make_directory(run, config_is_named=aside is not None)

    def _end(self, run: Run, now: RunState) -> RunEnd:
        if now.damage:
            result = self._home.run(run.id).result
            self._trouble.append(f"{run.name}: {now.damage} ({result}): it is set aside, and the run goes on")
        if now.state == "done":
            return RunEnd(run, now.state, now.outcome, now.reason)
        if now.state == "unknown" and not (self._steal or self._follows):
            return RunEnd(run, now.state, now.outcome, now.reason or "held from elsewhere; take it over with --steal")
        if now.state == "queued" and not self._follows:
            return RunEnd(run, now.state, None, now.reason)
        if now.state == "failed" and now.outcome in FINAL and not self._retry:
            return RunEnd(run, "failed", now.outcome, now.reason)
        return RunEnd(run, "missing")

    def _is_up_to_date(self, run: Run, paths: RunPaths, known: Description) -> bool:
        """Whether `create` would change nothing: it is whole, of this run, and names all files that ask."""
        asking = {experiment.name for experiment in self._asked.get(run.id, ())}
        if not asking.issubset(known.experiments) or known.config_sha256 != config_hash(run.config):
            return False
        try:
            return paths.config.stat().st_size > 0
        except OSError:
            return False

    def _make_directory(self, run: Run, *, config_is_named: bool = False) -> RunPaths:
        """The run's directory, and a line about every file of it that had to be written again."""
        paths = self._home.run(run.id)
        lost = [text for text in lost_files(paths) if not (config_is_named and text.startswith(paths.config.name))]
        self._trouble += [f"{run.name}: {text}, and was written again" for text in lost]
        for experiment in self._asked.get(run.id, ()):
            paths = create(self._home, run, experiment.name, paper=experiment.paper)
        return paths if run.id in self._asked else create(self._home, run, "")
