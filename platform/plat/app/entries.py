"""The runs of a verb and the state of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from plat.app.messages import tell
from plat.app.standing import why_missing
from plat.dispatch.schedulers import ask_schedulers, corrected
from plat.planning.changed_code import made_before
from plat.store.coordination.preparations import preparations
from plat.store.home import Home
from plat.store.many_runs import descriptions, states
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import load_meta
from plat.store.run_directory.state import STATES, RunState, run_state
from plat.units import are, counted
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run

PREPARING = RunStatus.PREPARING
SHOWN = (*STATES[:-1], PREPARING, STATES[-1])  # order of the states in `counts`
STOPPABLE = (RunStatus.RUNNING, RunStatus.QUEUED, RunStatus.UNKNOWN)  # states in which a run can receive a stop request


@dataclass(frozen=True)
class Entry:
    """One run and its state.

    asked_by  the verb that continues it, see `goes_on`
    config    its resolved config if a file named the run; None: read it from the run's directory
    """

    id: str
    name: str
    axes: dict[str, Any]
    state: RunState
    asked_by: str = "sweep"
    config: Mapping[str, Any] | None = None

    def as_json(self) -> dict[str, Any]:
        """Return id, name, axes, every field of the state, and as `why` the reason without a result (or None)."""
        why = why_missing(self.state, self.asked_by) or None
        return {"id": self.id, "name": self.name, "axes": self.axes, **asdict(self.state), "why": why}


def distinct(experiments: Sequence[Experiment]) -> list[Run]:
    """Return every run of the experiments once, in order."""
    return list({run.id: run for experiment in experiments for run in experiment.runs}.values())


def states_asked(home: Home, experiments: Sequence[Experiment]) -> dict[str, RunState]:
    """Return the states of these experiments' runs by id; without experiments, of all runs of the home.

    Schedulers are asked about the runs that they have. A missing run is "preparing" while its preparation is made.
    """
    tasks, going_on = ask_schedulers(home), {preparation.key for preparation in preparations(home)}
    standing = states(home, [run.id for run in distinct(experiments)] if experiments else None)
    if going_on:
        for run_id, key in _needs(home, experiments, standing).items():
            if standing[run_id].state == RunStatus.MISSING and key in going_on:
                standing[run_id] = replace(standing[run_id], state=PREPARING)
    return {run_id: corrected(home, run_id, state, tasks) for run_id, state in standing.items()}


def _needs(home: Home, experiments: Sequence[Experiment], standing: Mapping[str, RunState]) -> dict[str, str | None]:
    """Return the preparation key that each run needs: of the experiments' runs, or of the home's missing runs."""
    if experiments:
        return {run.id: run.prepare[0] if run.prepare else None for run in distinct(experiments)}
    missing = [run_id for run_id, state in standing.items() if state.state == RunStatus.MISSING]
    return {run_id: description.needs for run_id, description in descriptions(home, missing).items()}


def entries_asked(home: Home, experiments: Sequence[Experiment]) -> list[Entry]:
    """Return these experiments' runs, each once, or all runs of the home, with current states; see `states_asked`."""
    return described(home, experiments, states_asked(home, experiments))


def entries_of(home: Home) -> list[Entry]:
    """Return every run with a directory in this home, by id, with the state that its directory shows."""
    return described(home, (), states(home))


def described(home: Home, experiments: Sequence[Experiment], standing: Mapping[str, RunState]) -> list[Entry]:
    """Return an entry for each of these states (by run id), with name and axes from the experiments, else the home."""
    entries = []
    if experiments:
        runs, verbs = {run.id: run for run in distinct(experiments)}, asked_by(home, experiments, ())
        for run_id, state in standing.items():
            run = runs[run_id]
            entries.append(Entry(run_id, run.name, run.axes, state, verbs.get(run_id, "sweep"), run.config))
    else:
        known = descriptions(home, standing)
        for run_id, state in standing.items():
            here = known[run_id]
            entries.append(Entry(run_id, here.name, here.axes, state, goes_on(here.experiments, here.searches)))
    return entries


def goes_on(files: Iterable[str], searches: Iterable[str]) -> str:
    """Return the verb that continues a run: "sweep" if an experiment file asked for it, else "tune", else "run".

    `files` are the names of all files that asked for it, `searches` those of search files.
    """
    if set(files) - set(searches):
        return "sweep"
    return "tune" if files else "run"


def asked_by(home: Home, experiments: Sequence[Experiment], run_ids: Iterable[str]) -> dict[str, str]:
    """Return the verb that continues each run, by id; a run that is not in the result means "sweep".

    With `experiments`, the result has "tune" for each run that only searches ask for; `run_ids` is ignored. Without
    them, the verb of each of `run_ids` is `goes_on` of the files that the home records for this run.
    """
    if experiments:
        swept = {run.id for experiment in experiments if not experiment.is_search for run in experiment.runs}
        searched = [run.id for experiment in experiments if experiment.is_search for run in experiment.runs]
        return {run_id: "tune" for run_id in searched if run_id not in swept}
    known = descriptions(home, run_ids)
    return {run_id: goes_on(run.experiments, run.searches) for run_id, run in known.items()}


def standing(home: Home, run_ids: Iterable[str]) -> dict[str, RunState]:
    """Return run id -> current state, and write nothing; schedulers are asked about the runs that they have."""
    tasks = ask_schedulers(home, note=False)
    return {id: corrected(home, id, state, tasks) for id, state in states(home, list(run_ids)).items()}


def entry_of(home: Home, run: Run) -> Entry:
    """Return the entry of a run of a file, with its state in this home."""
    return Entry(run.id, run.name, run.axes, run_state(home.run(run.id)))


def entry_in(paths: RunPaths) -> Entry:
    """Return the entry of a run directory, with name and axes from its meta.json."""
    meta = load_meta(paths) or {}
    name, axes = str(meta.get("name", paths.id)), meta.get("axes")
    verb = goes_on(meta.get("experiments") or (), meta.get("studies") or ())
    return Entry(paths.id, name, axes if isinstance(axes, dict) else {}, run_state(paths), verb)


def counts(states: Iterable[RunState]) -> str:
    """Count states in words: `2 done, 1 failed of 3`."""
    numbers = Counter(state.state for state in states)
    parts = [f"{numbers[state]} {state}" for state in SHOWN if numbers[state]]
    return f"{', '.join(parts)} of {numbers.total()}" if parts else "no runs"


# Take the runs that a home has done under other ids: those of plat 0.4, and those of code that has changed since.
#
# plat 0.4 hashed the bytes of a script's files. A home may have such a run, of files whose bytes have not changed: then
# it is the same run, and keeps its id. A run of other code is another run, and is only taken where that is asked for.


def with_earlier_ids(experiments: Sequence[Experiment], home: Home) -> list[Experiment]:
    """Return the experiments; a run that this home has done only under its earlier id has that id."""
    return [_with_runs(file, [_as_in_0_4(run, home) for run in file.runs]) for file in experiments]


def with_code_of_runs(experiments: Sequence[Experiment], home: Home) -> list[Experiment]:
    """Return the experiments; a missing run that this home has done with other code is replaced by the newest such run.

    Where an experiment then has runs of different code, that is said on stderr.
    """
    changed = []
    for file in experiments:
        earlier = made_before(file.runs, home)
        if earlier:
            codes = {str(run.identity.get("plugins")) for run in earlier.values()}
            versions = f" (of {len(codes)} versions)" if len(codes) > 1 else ""
            number = len(earlier)
            tell(
                f"note: {file.path}: {counted(number, 'run')} {are(number)} of earlier code{versions}, "
                f"{len(file.runs) - number} of today's or missing"
            )
        runs = [
            _under(run, earlier[run.id].id, earlier[run.id].identity) if run.id in earlier else run for run in file.runs
        ]
        changed.append(_with_runs(file, runs))
    return changed


def _with_runs(experiment: Experiment, runs: Sequence[Run]) -> Experiment:
    """Return the experiment with these in place of its runs, in the same order."""
    ids = {before.id: run.id for before, run in zip(experiment.runs, runs, strict=True) if before.id != run.id}
    if not ids:
        return experiment
    cells = [(labels, ids.get(run_id, run_id)) for labels, run_id in experiment.cells]
    return replace(experiment, runs=list(runs), cells=cells)


def _as_in_0_4(run: Run, home: Home) -> Run:
    """Return the run under the id of plat 0.4 if the home has done it only so, else the run itself."""
    if run.earlier is None or home.run(run.id).result.exists() or not home.run(run.earlier[0]).result.exists():
        return run
    return _under(run, *run.earlier)


def _under(run: Run, run_id: str, identity: dict[str, Any]) -> Run:
    return replace(run, id=run_id, name=run.name.removesuffix(run.id[:8]) + run_id[:8], identity=identity)
