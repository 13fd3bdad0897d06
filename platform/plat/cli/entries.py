"""The runs that a verb is about, and where each of them stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from plat.cli.missing_runs import distinct
from plat.cli.place import ask_schedulers, corrected
from plat.cli.standing import why_missing
from plat.store.home import Home, RunPaths
from plat.store.index.runs import entries as run_entries
from plat.store.index.runs import states
from plat.store.preparations import Preparation, preparations
from plat.store.run_directory.files import load_meta
from plat.store.run_directory.state import STATES, RunState, run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

PREPARING = "preparing"
SHOWN = (*STATES[:-1], PREPARING, STATES[-1])  # states in the order in which they are counted
STOPPABLE = ("running", "queued", "unknown")  # the states of runs that a request to stop can reach


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


def standing(home: Home, run_ids: Iterable[str]) -> dict[str, RunState]:
    """Where runs stand now, for verbs that write nothing: schedulers are asked about the runs that they have."""
    snapshot = ask_schedulers(home, note=False)
    return {id: corrected(state, home.run(id), snapshot) for id, state in states(home, list(run_ids)).items()}


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
