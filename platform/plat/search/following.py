"""Follow a search that another process of this home goes on with: its runs, and the ends of its trials."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.dispatch.setting import SearchCall
from plat.dispatch.sweep_ends import RunEnd
from plat.errors import SpecError
from plat.search.search import Search
from plat.search.search_settings import Objective
from plat.search.study import REASON, RUNS, STEPS, WORDS, Study
from plat.search.trial_curve import Curves, value_of
from plat.store.coordination.live_sweeps import Trial, Winner
from plat.store.coordination.submissions import Record, newest_records
from plat.store.home import Home
from plat.store.run_directory.run_files import read_result, result_damage

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

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


# The state of a study: its trials, and each winner on the seeds that chose it and on fresh ones.


@dataclass(frozen=True)
class Summary:
    """The trials of a search by number, and its winners: one for each winning trial and objective.

    left_out  name of a winner's run that is no longer whole -> what is wrong with it
    """

    search: Search
    trials: tuple[Trial, ...]
    winners: tuple[Winner, ...]
    left_out: dict[str, str]

    def counts(self) -> dict[str, int]:
        """Return "complete", "pruned", "failed" or "unfinished" -> number of trials, for those that occur."""
        return dict(Counter(trial.state for trial in self.trials))

    @property
    def all_tie(self) -> bool:
        """True if several trials are complete and all have the same values: the objectives tell none from another."""
        values = [trial.values for trial in self.trials if trial.values]
        return len(values) > 1 and len(set(values)) == 1

    @property
    def iterations(self) -> int:
        """Iterations of training, over all trials."""
        return sum(trial.iterations for trial in self.trials)


def summarise(home: Home, search: Search, study: Study) -> Summary:
    """Return the present state of a study. Runs that are not done do not count in a winner's values."""
    chosen = study.winners()
    winners = [winner for trial in chosen for winner in _winners(home, search, trial)]
    left_out: dict[str, str] = {}
    for trial in chosen:
        left_out |= _left_out(home, search.runs_of(trial.params, search.seeds), search.objectives)
    return Summary(search, tuple(_trial(stored) for stored in study.trials()), tuple(winners), left_out)


def progress(study: Study, search: Search, number: int) -> str:
    """Return a line on a complete trial: `trial 2: 0.43; 3 of 4 trials are over; best so far: 0.45 (lr=0.1)`."""
    trials = study.trials()
    over = sum(trial.state.is_finished() for trial in trials)
    best = study.winners()
    found = _words(best[0]) if len(best) == 1 else f"{len(best)} trials, none of which is worse in all objectives"
    own = ", ".join(f"{value:.4g}" for value in trials[number].values or ())
    return f"trial {number}: {own}; {over} of {search.trials} trials are over; best so far: {found}"


def _words(trial: FrozenTrial) -> str:
    values = ", ".join(f"{value:.4g}" for value in trial.values or ())
    options = ", ".join(f"{name}={_short(value)}" for name, value in trial.params.items())
    return f"trial {trial.number}: {values} ({options})"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _trial(stored: FrozenTrial) -> Trial:
    attributes = stored.user_attrs
    return Trial(
        stored.number,
        WORDS[stored.state.name],
        dict(stored.params),
        tuple(stored.values or ()),
        int(attributes.get(STEPS, 0)),
        str(attributes.get(REASON, "")),
        tuple(attributes.get(RUNS, ())),
    )


def _winners(home: Home, search: Search, stored: FrozenTrial) -> Iterator[Winner]:
    """Yield a winning trial once for each objective."""
    searched = _done(home, search.runs_of(stored.params, search.seeds))
    fresh = _done(home, search.runs_of(stored.params, search.confirm))
    run_ids = tuple(run.id for run in [*searched, *fresh])
    for objective in search.objectives:
        values, fresh_values = (_values(home, objective, runs) for runs in (searched, fresh))
        yield Winner(stored.number, str(objective), objective.maximize, values, fresh_values, run_ids)


def _left_out(home: Home, runs: Sequence[Run], objectives: Sequence[Objective]) -> dict[str, str]:
    """Return the runs, all of them once done, that have no value now -> why."""
    found = {}
    for run in runs:
        paths = home.run(run.id)
        if read_result(paths) is None:
            found[run.name] = str(result_damage(paths) or "its directory has no result.json")
        elif not all(_values(home, objective, [run]) for objective in objectives):
            found[run.name] = "its events are missing or damaged"
    return found


def _done(home: Home, runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if read_result(home.run(run.id)) is not None]


def _values(home: Home, objective: Objective, runs: Sequence[Run]) -> tuple[float, ...]:
    curves = (Curves(home.run(run.id), [objective.metric]).update()[objective.metric] for run in runs)
    values = (value_of(curve, objective) for curve in curves)
    return tuple(value for value in values if value is not None)
