"""`plat status`: how far the runs are. Changes nothing."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.common import Arguments, HomeOption, JsonOption, home_to_read, load_experiments, print_json
from plat.cli.entries import Entry, asked_by, counts, described, states_asked
from plat.cli.missing_runs import distinct
from plat.cli.settings import verb
from plat.cli.standing import cost_line, reasons, work_done, work_to_go
from plat.cli.table import fitted, table
from plat.store.home import Home
from plat.store.preparations import preparations
from plat.store.run_directory.state import RunState
from plat.units import counted, duration, percent

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

MOST_ROWS = 40  # of the table without --all: more than that nobody reads
FOLDED = ("done", "missing")  # the states of which a long table shows only the number
COLUMNS = ("run", "state", "outcome", "attempts", "iteration", "success", "last sign")


@verb(reads_trainers=True)
def status(
    arguments: Arguments = None,
    show_all: Annotated[bool, typer.Option("--all", help="Every run, however many there are.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """How far the runs are.

    Those of the named files, or all of this home; of hundreds of runs, those that are neither done nor missing. Exit
    code 3 when some failed.
    """
    place = home_to_read(home)
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True)
    standing = states_asked(place, experiments)
    if as_json:
        runs = [entry.as_json() for entry in described(place, experiments, standing)]
        print_json({"home": str(place.root), "runs": runs})
    else:
        for experiment in experiments:
            print(f"{experiment.name}: {counts(standing[run.id] for run in experiment.runs)}")
        if not experiments:
            print(f"{place.root}: {counts(standing.values())}")
            if archived := place.archived_ids():
                print(f"  {counted(len(archived), 'run')} in the archive; `plat archive --restore` brings them back")
        for preparation in preparations(place):
            print(f"  preparing {preparation.title}, for {duration(preparation.seconds)}: {preparation.progress}")
        for line in _summary(place, standing, experiments):
            print(fitted(f"  {line}"))
        shown, notes = _listed(standing, show_all)
        print(_listing(described(place, experiments, shown), notes), end="")
    return 3 if any(state.state == "failed" for state in standing.values()) else 0


def _summary(home: Home, states: dict[str, RunState], experiments: Sequence[Experiment]) -> list[str]:
    """What the runs have cost and will cost, and why those without a result have none."""
    runs = distinct(experiments)
    unfinished = [run_id for run_id, state in states.items() if state.state != "done"]
    is_over = all(state.state == "done" for state in states.values())
    lines = []
    if any(state.attempt for state in states.values()):
        to_go = None if is_over or not runs else work_to_go(home, runs, states)
        lines.append(cost_line(work_done(home, states), to_go, is_over or not runs))
    return [*lines, *reasons(states, asked_by(home, experiments, unfinished))]


def _listed(standing: Mapping[str, RunState], show_all: bool) -> tuple[dict[str, RunState], list[str]]:
    """The runs that are listed one by one, and what to say of the others: a long table leaves out what FOLDED says."""
    if len(standing) <= MOST_ROWS or show_all:
        return dict(standing), []
    rows = {run_id: state for run_id, state in standing.items() if state.state not in FOLDED}
    folded = Counter(state.state for state in standing.values() if state.state in FOLDED)
    notes = [f"{folded[state]} {state}" for state in FOLDED if folded[state]]
    if len(rows) > MOST_ROWS:
        notes.append(f"{len(rows) - MOST_ROWS} more")
    return dict(itertools.islice(rows.items(), MOST_ROWS)), notes


def _listing(rows: Sequence[Entry], notes: Sequence[str]) -> str:
    """The runs line by line, and what is not shown."""
    lines = [table(COLUMNS, [_cells(entry) for entry in rows])] if rows else []
    if notes:
        lines.append(f"  not shown: {', '.join(notes)} (--all lists every run)")
    return "".join(f"{line}\n" for line in lines)


def _cells(entry: Entry) -> tuple[str, ...]:
    """In the order of COLUMNS."""
    state = entry.state
    step = "" if state.step is None else f"{state.step}/{state.iterations}" if state.iterations else str(state.step)
    age = "" if state.age is None else duration(state.age)
    attempts = str(state.attempt or "")
    return (entry.name, state.state, state.outcome or "", attempts, step, percent(state.success), age)
