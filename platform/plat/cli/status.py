"""`plat status`: how far the runs are. Changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli.common import (
    Arguments,
    HomeOption,
    JsonOption,
    duration,
    load_experiments,
    print_json,
)
from plat.cli.missing_runs import distinct
from plat.cli.place import ask_schedulers, corrected
from plat.cli.settings import verb
from plat.cli.standing import cost_line, reasons, seconds_spent, seconds_to_go, why_missing
from plat.cli.table import table
from plat.store.home import Home, RunPaths
from plat.store.index.runs import entries as run_entries
from plat.store.index.runs import states
from plat.store.preparations import Preparation, preparations
from plat.store.run_directory.files import load_meta
from plat.store.run_directory.state import STATES, RunState, run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

MOST_ROWS = 40  # of the table without --all: more than that nobody reads
FOLDED = ("done", "missing")  # the states of which a long table shows only the number
PREPARING = "preparing"
SHOWN = (*STATES[:-1], PREPARING, STATES[-1])  # states in the order in which they are counted
COLUMNS = ("run", "state", "outcome", "attempts", "iteration", "success", "last sign")


@dataclass(frozen=True)
class Entry:
    """One run and where it stands. `needs` is the key of the preparation (a base model, say) that it needs, or None."""

    id: str
    name: str
    axes: dict[str, Any]
    state: RunState
    needs: str | None = None

    def as_json(self) -> dict[str, Any]:
        why = why_missing(self.state) or None
        return {"id": self.id, "name": self.name, "axes": self.axes, **asdict(self.state), "why": why}

    def cells(self) -> tuple[str, ...]:
        """In the order of COLUMNS."""
        state = self.state
        step = "" if state.step is None else f"{state.step}/{state.iterations}" if state.iterations else str(state.step)
        success = "" if state.success is None else f"{100 * state.success:.1f} %"
        age = "" if state.age is None else duration(state.age)
        return (self.name, state.state, state.outcome or "", str(state.attempt or ""), step, success, age)


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


def entries_asked(home: Home, experiments: Sequence[Experiment]) -> list[Entry]:
    """The runs of these experiments, each once, or all of this home when there are none, as they stand now.

    Schedulers are asked about the runs that they have; a run whose preparation goes on is "preparing".
    """
    snapshot, going_on = ask_schedulers(home), preparations(home)
    if experiments:
        runs = distinct(experiments)
        standing = states(home, [run.id for run in runs])
        entries = [_entry(run, standing[run.id]) for run in runs]
    else:
        entries = entries_of(home)
    entries = [with_preparing(entry, going_on) for entry in entries]
    if snapshot is None:
        return entries
    return [replace(entry, state=corrected(entry.state, home.run(entry.id), snapshot)) for entry in entries]


def entry_of(home: Home, run: Run) -> Entry:
    """A run of a file, and where it stands in this home."""
    return _entry(run, run_state(home.run(run.id)))


def _entry(run: Run, state: RunState) -> Entry:
    return Entry(run.id, run.name, run.axes, state, run.prepare[0] if run.prepare else None)


def with_preparing(entry: Entry, going_on: Sequence[Preparation]) -> Entry:
    """A run that is missing because what it needs is being made right now is "preparing"."""
    if entry.state.state == "missing" and entry.needs in [preparation.key for preparation in going_on]:
        return replace(entry, state=replace(entry.state, state=PREPARING))
    return entry


def entries_of(home: Home) -> list[Entry]:
    """Every run that has a directory in this home, by id."""
    return [Entry(entry.id, entry.name, entry.axes, entry.state, entry.needs) for entry in run_entries(home)]


def entry_in(paths: RunPaths) -> Entry:
    """The run of a directory, as its meta.json names it."""
    meta = load_meta(paths) or {}
    name, axes = str(meta.get("name", paths.id)), meta.get("axes")
    needs = meta.get("prepare")
    key = str(needs[0]) if isinstance(needs, list) and needs else None
    return Entry(paths.id, name, axes if isinstance(axes, dict) else {}, run_state(paths), key)


def counts(entries: Iterable[Entry]) -> str:
    """`2 done, 1 failed of 3`."""
    numbers = Counter(entry.state.state for entry in entries)
    parts = [f"{numbers[state]} {state}" for state in SHOWN if numbers[state]]
    return f"{', '.join(parts)} of {numbers.total()}" if parts else "no runs"


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
    lines = [table(COLUMNS, [entry.cells() for entry in rows])] if rows else []
    if notes:
        lines.append(f"  not shown: {', '.join(notes)} (--all lists every run)")
    return "".join(f"{line}\n" for line in lines)
