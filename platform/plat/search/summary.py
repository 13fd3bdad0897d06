"""The state of a study: its trials, and each winner on the seeds that chose it and on fresh ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.search.search import Search
from plat.search.search_settings import Objective
from plat.search.study import REASON, RUNS, STEPS, WORDS, Study
from plat.search.trial_curve import Curves, value_of
from plat.store.coordination.trial_records import Trial, Winner
from plat.store.home import Home
from plat.store.run_directory.run_files import read_result, result_damage

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.expansion.run import Run


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
