"""The runs that a verb is about, and where each of them stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from plat.cli.missing_runs import distinct
from plat.cli.standing import why_missing
from plat.dispatch.schedulers import ask_schedulers, corrected
from plat.store.home import Home
from plat.store.index.runs import descriptions, states
from plat.store.preparations import preparations
from plat.store.run_directory.files import load_meta
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import STATES, RunState, run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

PREPARING = "preparing"
SHOWN = (*STATES[:-1], PREPARING, STATES[-1])  # states in the order in which they are counted
STOPPABLE = ("running", "queued", "unknown")  # the states of runs that a request to stop can reach


@dataclass(frozen=True)
class Entry:
    """One run and where it stands.

    asked_by  which verb goes on with it, see `goes_on`
    config    its resolved config, where the run was named by a file; None: the run's directory has it
    """

    id: str
    name: str
    axes: dict[str, Any]
    state: RunState
    asked_by: str = "sweep"
    config: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        why = why_missing(self.state, self.asked_by) or None
        return {"id": self.id, "name": self.name, "axes": self.axes, **asdict(self.state), "why": why}


def states_asked(home: Home, experiments: Sequence[Experiment]) -> dict[str, RunState]:
    """Where the runs of these experiments stand, or all of this home when there are none, by id.

    Schedulers are asked about the runs that they have; a run whose preparation goes on is "preparing".
    """
    tasks, going_on = ask_schedulers(home), {preparation.key for preparation in preparations(home)}
    standing = states(home, [run.id for run in distinct(experiments)] if experiments else None)
    if going_on:
        for run_id, key in _needs(home, experiments, standing).items():
            if standing[run_id].state == "missing" and key in going_on:
                standing[run_id] = replace(standing[run_id], state=PREPARING)
    return {run_id: corrected(home, run_id, state, tasks) for run_id, state in standing.items()}


def _needs(home: Home, experiments: Sequence[Experiment], standing: Mapping[str, RunState]) -> dict[str, str | None]:
    """The keys of the preparations that runs need; of all runs of a home, of those that are missing."""
    if experiments:
        return {run.id: run.prepare[0] if run.prepare else None for run in distinct(experiments)}
    missing = [run_id for run_id, state in standing.items() if state.state == "missing"]
    return {run_id: description.needs for run_id, description in descriptions(home, missing).items()}


def entries_asked(home: Home, experiments: Sequence[Experiment]) -> list[Entry]:
    """The runs of these experiments, each once, or all of this home when there are none, as they stand now; see
    `states_asked`."""
    return described(home, experiments, states_asked(home, experiments))


def entries_of(home: Home) -> list[Entry]:
    """Every run that has a directory in this home, by id, as its directory says that it stands."""
    return described(home, (), states(home))


def described(home: Home, experiments: Sequence[Experiment], standing: Mapping[str, RunState]) -> list[Entry]:
    """These runs with their names and axes, as the files name them, or as the home does when there are none."""
    if experiments:
        runs = {run.id: run for run in distinct(experiments)}
        asked = [(runs[run_id], state) for run_id, state in standing.items()]
        verbs = asked_by(home, experiments, ())
        return [
            Entry(run.id, run.name, run.axes, state, verbs.get(run.id, "sweep"), run.config) for run, state in asked
        ]
    known = descriptions(home, standing)
    return [
        Entry(
            run_id,
            known[run_id].name,
            known[run_id].axes,
            state,
            goes_on(known[run_id].experiments, known[run_id].searches),
        )
        for run_id, state in standing.items()
    ]


def goes_on(files: Iterable[str], searches: Iterable[str]) -> str:
    """Which verb goes on with a run that these files have asked for, some of which are searches: "sweep" where one is
    an experiment file, else "tune" where one is a search, else "run"."""
    if set(files) - set(searches):
        return "sweep"
    return "tune" if files else "run"


def asked_by(home: Home, experiments: Sequence[Experiment], run_ids: Iterable[str]) -> dict[str, str]:
    """Which verb goes on with runs, by id, where it is not "sweep": with those of named searches "tune"; without any
    file, see `goes_on`, with these runs what their directories say."""
    if experiments:
        swept = {run.id for experiment in experiments if not experiment.is_search for run in experiment.runs}
        searched = [run.id for experiment in experiments if experiment.is_search for run in experiment.runs]
        return {run_id: "tune" for run_id in searched if run_id not in swept}
    known = descriptions(home, run_ids)
    return {run_id: goes_on(run.experiments, run.searches) for run_id, run in known.items()}


def standing(home: Home, run_ids: Iterable[str]) -> dict[str, RunState]:
    """Where runs stand now, for verbs that write nothing: schedulers are asked about the runs that they have."""
    tasks = ask_schedulers(home, note=False)
    return {id: corrected(home, id, state, tasks) for id, state in states(home, list(run_ids)).items()}


def entry_of(home: Home, run: Run) -> Entry:
    """A run of a file, and where it stands in this home."""
    return Entry(run.id, run.name, run.axes, run_state(home.run(run.id)))


def entry_in(paths: RunPaths) -> Entry:
    """The run of a directory, as its meta.json names it."""
    meta = load_meta(paths) or {}
    name, axes = str(meta.get("name", paths.id)), meta.get("axes")
    verb = goes_on(meta.get("experiments") or (), meta.get("studies") or ())
    return Entry(paths.id, name, axes if isinstance(axes, dict) else {}, run_state(paths), verb)


def counts(states: Iterable[RunState]) -> str:
    """`2 done, 1 failed of 3`."""
    numbers = Counter(state.state for state in states)
    parts = [f"{numbers[state]} {state}" for state in SHOWN if numbers[state]]
    return f"{', '.join(parts)} of {numbers.total()}" if parts else "no runs"
