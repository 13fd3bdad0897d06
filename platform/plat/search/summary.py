"""What a study has come to: its trials, and the winner on the seeds it was chosen by and on fresh ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.search.file import Search
from plat.search.study import REASON, RUNS, STEPS, Study
from plat.search.values import Curves, value_of
from plat.store.home import Home
from plat.store.run_directory.files import read_result

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from plat.spec.runs import Run

WORDS = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "unfinished", "WAITING": "unfinished"}


@dataclass(frozen=True)
class TrialFacts:
    """One trial. `values` are those of the objectives; of a pruned one the last that was reported; () without any."""

    number: int
    state: str
    params: dict[str, Any]
    values: tuple[float, ...]
    iterations: int
    reason: str
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Confirmed:
    """A winner: for each objective its value in each run, on the seeds of the search and on fresh ones."""

    trial: int
    searched: tuple[tuple[float, ...], ...]
    fresh: tuple[tuple[float, ...], ...]
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Summary:
    search: Search
    trials: tuple[TrialFacts, ...]
    winners: tuple[Confirmed, ...]

    def counts(self) -> dict[str, int]:
        """How many trials are complete, pruned, failed and unfinished."""
        return dict(Counter(trial.state for trial in self.trials))

    @property
    def iterations(self) -> int:
        """Of training, of all trials."""
        return sum(trial.iterations for trial in self.trials)


def summarise(home: Home, search: Search, study: Study) -> Summary:
    """The state of a study now; runs that are not done are left out of a winner's values."""
    winners = []
    for trial in study.winners():
        searched = search.runs_of(trial.params, search.seeds)
        fresh = search.runs_of(trial.params, search.confirm)
        done = tuple(run.id for run in [*searched, *fresh] if read_result(home.run(run.id)) is not None)
        winners.append(Confirmed(trial.number, _values(home, search, searched), _values(home, search, fresh), done))
    return Summary(search, tuple(_facts(trial) for trial in study.trials()), tuple(winners))


def _facts(trial: FrozenTrial) -> TrialFacts:
    attributes = trial.user_attrs
    return TrialFacts(
        trial.number,
        WORDS[trial.state.name],
        dict(trial.params),
        tuple(trial.values or ()),
        int(attributes.get(STEPS, 0)),
        str(attributes.get(REASON, "")),
        tuple(attributes.get(RUNS, ())),
    )


def _values(home: Home, search: Search, runs: Sequence[Run]) -> tuple[tuple[float, ...], ...]:
    """For each objective, its values in the runs that are done."""
    columns = []
    done = [run for run in runs if read_result(home.run(run.id)) is not None]
    curves = [Curves(home.run(run.id), {objective.metric for objective in search.objectives}).update() for run in done]
    for objective in search.objectives:
        values = (value_of(each[objective.metric], objective) for each in curves)
        columns.append(tuple(value for value in values if value is not None))
    return tuple(columns)
