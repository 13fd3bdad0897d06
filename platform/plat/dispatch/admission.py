"""Decide which runs a sweep executes, and make their directories.

A finished run is never executed again. A failure that would repeat (FINAL) is retried only with `retry`. A run that a
scheduler holds is left alone, unless the sweep's own dispatcher can follow it there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.dispatch.sweep_ends import RunEnd
from plat.runner.failures import FINAL
from plat.store.coordination.submissions import damaged_submissions
from plat.store.home import Home
from plat.store.many_runs import Description, descriptions, states
from plat.store.run_directory.creation import create, lost_files
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import config_changed_since_result, config_hash, set_damaged_config_aside
from plat.store.run_directory.state import RunState
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run

AT_ONCE = 5_000  # done runs whose descriptions are in memory at the same time


@dataclass
class Admission:
    """Judge runs before they are handed to a dispatcher.

    experiments  the experiments that request the runs, noted in the meta.json of each run
    trouble      list to which descriptions of damaged files are appended
    steal        execute runs whose lease cannot be checked from this machine
    retry        execute failed runs of every class; otherwise not those whose failure is FINAL
    follows      the dispatcher follows runs that a scheduler holds, and decides itself about leases of other machines
    """

    home: Home
    experiments: Sequence[Experiment]
    trouble: list[str]
    steal: bool = False
    retry: bool = False
    follows: bool = False

    def __post_init__(self) -> None:
        self._asked: dict[str, list[Experiment]] = {}
        for experiment in self.experiments:
            for run in experiment.runs:
                self._asked.setdefault(run.id, []).append(experiment)

    def judge(self, runs: Sequence[Run]) -> list[RunEnd]:
        """Return the state of each run, in the same order. MISSING: execute it now (start, resume or retry it).

        Also repair the directories of done runs, and note damage and repairs in `trouble`. Raises HomeError or
        SpecError, as `create`, if such a directory cannot be repaired.
        """
        standing = states(self.home, [run.id for run in runs])
        ends = [self._end(run, standing[run.id]) for run in runs]
        if any(end.state == RunStatus.MISSING for end in ends):
            self._name_damaged_submissions()
        done = [end.run for end in ends if end.state == RunStatus.DONE]
        for start in range(0, len(done), AT_ONCE):
            self._fix(done[start : start + AT_ONCE])
        return ends

    def _name_damaged_submissions(self) -> None:
        """Report submissions whose runs cannot be read: a scheduler may have some of the runs that are missing."""
        for submission in damaged_submissions(self.home):
            text = f"{submission.manifest} is damaged: a scheduler may have some of these runs (none is executed twice)"
            if text not in self.trouble:
                self.trouble.append(text)

    def _fix(self, done: Sequence[Run]) -> None:
        """Complete the directories of done runs and note every experiment that requests them."""
        known = descriptions(self.home, [run.id for run in done])
        for run in done:
            paths = self.home.run(run.id)
            if config_changed_since_result(paths):
                self.make(run)
            elif not self._is_up_to_date(run, paths, known[run.id]):
                self._make_directory(run)

    def make(self, run: Run) -> RunPaths:
        """Make the run's directory and return its paths; set a damaged or edited config.yaml aside and rewrite it.

        Raises HomeError if the directory cannot be written or is of another run, SpecError if its config is different.
        """
        aside = None
        with contextlib.suppress(OSError):  # making the directory then fails too, with the reason
            aside = set_damaged_config_aside(self.home.run(run.id))
            if aside is not None:
                text = f"{run.name}: config.yaml was damaged or edited; it is now {aside}, and a new one was written"
                self.trouble.append(text)
        return self._make_directory(run, config_is_named=aside is not None)

    def _end(self, run: Run, now: RunState) -> RunEnd:
        if now.damage:
            result = self.home.run(run.id).result
            self.trouble.append(f"{run.name}: {now.damage} ({result}): it is set aside, and the run resumes")
        if now.state == RunStatus.DONE:
            return RunEnd(run, now.state, now.outcome, now.reason)
        if now.state == RunStatus.UNKNOWN and not (self.steal or self.follows):
            return RunEnd(run, now.state, now.outcome, now.reason or "held from elsewhere; take it over with --steal")
        if now.state == RunStatus.QUEUED and not self.follows:
            return RunEnd(run, now.state, None, now.reason)
        if now.state == RunStatus.FAILED and now.outcome in FINAL and not self.retry:
            return RunEnd(run, RunStatus.FAILED, now.outcome, now.reason)
        return RunEnd(run, RunStatus.MISSING)

    def _is_up_to_date(self, run: Run, paths: RunPaths, known: Description) -> bool:
        """Return True if `create` would change nothing: the config is intact, and all experiments are noted."""
        asking = {experiment.name for experiment in self._asked.get(run.id, ())}
        if not asking.issubset(known.experiments) or known.config_sha256 != config_hash(run.config):
            return False
        try:
            return paths.config.stat().st_size > 0
        except OSError:
            return False

    def _make_directory(self, run: Run, *, config_is_named: bool = False) -> RunPaths:
        """Make the run's directory and report every file that had to be written again."""
        paths = self.home.run(run.id)
        lost = [text for text in lost_files(paths) if not (config_is_named and text.startswith(paths.config.name))]
        self.trouble += [f"{run.name}: {text}, and was written again" for text in lost]
        for experiment in self._asked.get(run.id, ()):
            paths = create(self.home, run, experiment.name, paper=experiment.paper)
        return paths if run.id in self._asked else create(self.home, run, "")
