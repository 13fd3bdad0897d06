"""`plat status`: progress of the runs. Changes nothing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.app.deciding import reduced
from plat.app.entries import Entry, asked_by, counts, described, distinct, states_asked
from plat.app.home_runs import home_to_read
from plat.app.loading import load_experiments
from plat.app.run_facts import RunFacts
from plat.app.standing import cost_line, reasons, work_done, work_to_go
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, verb
from plat.cli.result import Result
from plat.cli.schemas.runs import StatusData
from plat.cli.screen.table import fitted, table
from plat.store.coordination.preparations import preparations
from plat.store.home import Home
from plat.store.run_directory.state import RunState
from plat.units import duration, iteration, percent
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

MOST_ROWS = 40  # of the table without --all
FOLDED = (RunStatus.DONE, RunStatus.MISSING)  # states that a long table only counts
COLUMNS = ("run", "state", "outcome", "attempts", "iteration", "success", "metric", "last sign")


@verb(StatusData, reads_trainers=True)
def status(
    arguments: Arguments = None,
    show_all: Annotated[bool, typer.Option("--all", help="List every run.")] = False,
    home: HomeOption = None,
) -> Result:
    """Show the state of the runs.

    Shows the runs of the named files, or all of this home; of more than 40 runs, only those that are neither done nor
    missing, at most 40. Exit code 3 when some failed.
    """
    place = home_to_read(home)
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True, from_home=True)
    experiments = [reduced(place, place.store_uri(None), experiment) for experiment in experiments]
    standing = states_asked(place, experiments)

    def data() -> dict[str, Any]:
        runs = [entry.as_json() for entry in described(place, experiments, standing)]
        numbers = dict(Counter(str(state.state) for state in standing.values()))
        return {"home": str(place.root), "counts": numbers, "runs": runs}

    has_failed = any(state.state == RunStatus.FAILED for state in standing.values())
    text = partial(_text, place, experiments, standing, show_all)
    return Result(data, text, RUNS_FAILED if has_failed else 0)


def _text(home: Home, experiments: Sequence[Experiment], standing: dict[str, RunState], show_all: bool) -> str:
    lines = [f"{one.name}: {counts(standing[run.id] for run in one.runs)}" for one in experiments]
    lines = lines or [f"{home.root}: {counts(standing.values())}"]
    for preparation in preparations(home):
        lines.append(f"  preparing {preparation.title}, for {duration(preparation.seconds)}: {preparation.progress}")
    lines += [fitted(f"  {line}") for line in _summary(home, standing, experiments)]
    shown, notes = _listed(standing, show_all)
    entries = described(home, experiments, shown)
    entries = entries if experiments else sorted(entries, key=lambda entry: entry.name)
    rows = [_cells(home, entry) for entry in entries]
    lines += [table(COLUMNS, rows, drop_empty=True)] if rows else []
    lines += [f"  not shown: {', '.join(notes)} (--all lists every run)"] if notes else []
    return "\n".join(lines)


def _summary(home: Home, states: dict[str, RunState], experiments: Sequence[Experiment]) -> list[str]:
    """Return the past and expected cost of the runs, and the reasons of those without a result."""
    runs = distinct(experiments)
    unfinished = [run_id for run_id, state in states.items() if state.state != RunStatus.DONE]
    is_over = all(state.state == RunStatus.DONE for state in states.values())
    lines = []
    if any(state.attempt for state in states.values()):
        to_go = None if is_over or not runs else work_to_go(home, runs, states)
        lines.append(cost_line(work_done(home, states), to_go, is_over or not runs))
    return [*lines, *reasons(states, asked_by(home, experiments, unfinished))]


def _listed(standing: Mapping[str, RunState], show_all: bool) -> tuple[dict[str, RunState], list[str]]:
    """Return the runs to list, and notes on the others: a table over MOST_ROWS leaves out the states in FOLDED."""
    if len(standing) <= MOST_ROWS or show_all:
        return dict(standing), []
    rows = {run_id: state for run_id, state in standing.items() if state.state not in FOLDED}
    folded = Counter(state.state for state in standing.values() if state.state in FOLDED)
    notes = [f"{folded[state]} {state}" for state in FOLDED if folded[state]]
    if len(rows) > MOST_ROWS:
        notes.append(f"{len(rows) - MOST_ROWS} more")
    return dict(itertools.islice(rows.items(), MOST_ROWS)), notes


def _cells(home: Home, entry: Entry) -> tuple[str, ...]:
    """Return the cells of a row, in the order of COLUMNS."""
    state = entry.state
    step = iteration(state.step, state.iterations)
    age = "" if state.age is None else duration(state.age)
    attempts = str(state.attempt or "")
    measures = percent(state.success), RunFacts(home, entry).own_metric()
    return (entry.name, state.state, state.outcome or "", attempts, step, *measures, age)
