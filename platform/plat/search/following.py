"""Follow a search that another process of this home goes on with: its runs, and the ends of its trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plat.dispatch.dispatcher_spec import SearchCall
from plat.dispatch.sweep_ends import RunEnd
from plat.errors import SpecError
from plat.search.search import Search
from plat.search.study import Study
from plat.search.summary import progress
from plat.store.coordination.submissions import Record, newest_records
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

LOOK_EVERY = 1.0  # seconds between two looks into the study


class FollowedSearch:
    """A run source (`plat.dispatch.feed.Source`): it gives each run that the search has begun, and decides nothing.

    runs    every run so far
    study   is only read
    on_end  called with a sentence when a trial is complete
    """

    def __init__(
        self, home: Home, search: Search, study: Study, call: SearchCall, on_end: Callable[[str], None]
    ) -> None:
        self.runs: list[Run] = []
        self._home = home
        self._search = search
        self._study = study
        self._call = call
        self._on_end = on_end
        self._told = {trial.number for trial in study.trials() if trial.state.is_finished()}
        self._known: dict[str, Run] = {}
        self._taken = 0  # trials whose runs are known
        self._given: set[tuple[str, str]] = set()  # (run, submission)
        self._looked = 0.0
        self._last_look = False
        earlier = newest_records(home).get(call.id)
        self._earlier = "" if earlier is None or earlier.is_open else earlier.submission.name

    @staticmethod
    def goes_on(home: Home, call: SearchCall) -> Record | None:
        """Return the record of the search if a process has it, or will have it; else None."""
        record = newest_records(home).get(call.id)
        return record if record is not None and record.is_open else None

    @property
    def exhausted(self) -> bool:
        return self._last_look

    def next(self) -> Sequence[Run]:
        """Return the runs that a submission of the search has and that were not given for it."""
        record = newest_records(self._home).get(self._call.id)
        if record is None or record.submission.name == self._earlier or self._last_look:
            return []
        if record.is_open and time.monotonic() - self._looked < LOOK_EVERY:
            return []
        self._last_look = not record.is_open
        self._looked = time.monotonic()
        self._look()
        records = newest_records(self._home)
        given = []
        for run in self.runs:
            own = records.get(run.id)
            if own is not None and own.facts.get("search") == record.submission.name:
                key = (run.id, own.submission.name)
                if key not in self._given:
                    self._given.add(key)
                    given.append(run)
        return given

    def ended(self, end: RunEnd) -> None:
        """Ignore the end: the search itself sees it."""

    def _look(self) -> None:
        """Take up new trials and runs that confirm; say which trials are complete."""
        trials = self._study.trials()
        points = [(trial.params, self._search.seeds) for trial in trials[self._taken :]]
        self._taken = len(trials)
        if all(trial.state.is_finished() for trial in trials):
            points += [(winner.params, self._search.confirm) for winner in self._study.winners()]
        for params, seeds in points:
            try:
                runs = self._search.runs_of(params, seeds)
            except SpecError:  # parameters that are invalid together: the trial has failed
                continue
            for run in runs:
                if run.id not in self._known:
                    self._known[run.id] = run
                    self.runs.append(run)
        for trial in trials:
            if trial.state.is_finished() and trial.number not in self._told:
                self._told.add(trial.number)
                if trial.state.name == "COMPLETE":
                    self._on_end(progress(self._study, self._search, trial.number))
