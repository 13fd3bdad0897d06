"""`plat status`: how far the runs are. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.common import Arguments, HomeOption, JsonOption, load_experiments, print_json
from plat.cli.entries import Entry, counts, entries_asked
from plat.cli.missing_runs import distinct
from plat.cli.settings import verb
from plat.cli.standing import cost_line, reasons, seconds_spent, seconds_to_go
from plat.cli.table import table
from plat.store.home import Home
from plat.store.preparations import preparations
from plat.store.run_directory.state import RunState
from plat.units import duration, percent

if TYPE_CHECKING:
    from plat.spec.experiment import Run

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
    place = Home.find(home)
    experiments = load_experiments(arguments, required=False)
    entries = {entry.id: entry for entry in entries_asked(place, experiments)}
    if as_json:
        print_json({"home": str(place.root), "runs": [entry.as_json() for entry in entries.values()]})
    else:
        for experiment in experiments:
            print(f"{experiment.name}: {counts(entries[run.id] for run in experiment.runs)}")
        if not experiments:
            print(f"{place.root}: {counts(entries.values())}")
        for preparation in preparations(place):
            print(f"  preparing {preparation.title}, for {duration(preparation.seconds)}: {preparation.progress}")
        standing = {entry.id: entry.state for entry in entries.values()}
        for line in _summary(place, standing, distinct(experiments)):
            print(f"  {line}")
        print(listing(list(entries.values()), show_all), end="")
    return 3 if any(entry.state.state == "failed" for entry in entries.values()) else 0


def _summary(home: Home, states: dict[str, RunState], runs: Sequence[Run]) -> list[str]:
    """What the runs have cost and will cost, and why those without a result have none."""
    is_over = all(state.state == "done" for state in states.values())
    lines = []
    if any(state.attempt for state in states.values()):
        to_go = None if is_over or not runs else seconds_to_go(home, runs, states)
        lines.append(cost_line(seconds_spent(home, states), to_go, is_over or not runs))
    return [*lines, *reasons(states.values())]


def listing(entries: Sequence[Entry], show_all: bool) -> str:
    """The runs line by line. A long table leaves out what FOLDED says, and then says so."""
    rows = list(entries)
    notes = []
    if len(rows) > MOST_ROWS and not show_all:
        rows = [entry for entry in entries if entry.state.state not in FOLDED]
        folded = Counter(entry.state.state for entry in entries if entry.state.state in FOLDED)
        notes = [f"{folded[state]} {state}" for state in FOLDED if folded[state]]
        if len(rows) > MOST_ROWS:
            notes.append(f"{len(rows) - MOST_ROWS} more")
            rows = rows[:MOST_ROWS]
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
