"""The checks that a trainer makes of runs that are planned or about to be submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from plat.errors import SpecError
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import Experiment, Run, config_object
from plat.spec.identity.recorded_config import NEW, Recorded
from plat.store.home import Home
from plat.store.many_runs import states
from plat.trainer.api import Need, Trainer, has_own
from plat.trainer.finding import find_trainer
from plat.words.states import RunStatus


def check_runs(runs: Iterable[Run]) -> None:
    """Call the `check` of each run's trainer. Raises SpecError, with the run's name, at the first refusal."""
    call_each(runs, "check")


def not_done(runs: Iterable[Run], home: Home) -> list[Run]:
    """Return the runs without a result in this home, each once. The others need no check."""
    different = {run.id: run for run in runs}
    return [different[run_id] for run_id, state in states(home, different).items() if state.state != RunStatus.DONE]


def check_machine(runs: Iterable[Run], home: Home) -> None:
    """Call the trainer's `check_machine` for the runs without a result. Raises SpecError as `check_runs` does."""
    call_each(runs, "check_machine", passes=lambda run: home.run(run.id).result.exists())


def idle_overrides(runs: Iterable[Run], keys: Iterable[str]) -> dict[str, str]:
    """Return those of the dotted `keys` that have no effect in any of the runs -> the reason, from the last run.

    Without runs, all keys are returned, with "" as the reason.
    """
    idle: dict[str, str] = dict.fromkeys(keys, "")
    for _, reasons in _with_idle_keys(runs):
        if not idle:
            break
        idle = {key: reasons[key] for key in idle if key in reasons}
    return idle


def shared_positions(experiment: Experiment) -> dict[tuple[str, ...], tuple[int, str]]:
    """Count the positions of a matrix that have the same run as an earlier position.

    They share it because the axes in which they differ have no effect there. Returns the axes in which a position
    differs from the earlier one -> (number of such positions, why the first of these axes has no effect).
    """
    runs = {run.id: run for run in experiment.runs}
    first: dict[str, Mapping[str, Any]] = {}  # run id -> the axes of its first position
    shared: dict[tuple[str, ...], tuple[int, str]] = {}
    if len(runs) == len(experiment.cells):
        return shared
    reasons = {run.id: idle for run, idle in _with_idle_keys(runs.values())}
    for axes, run_id in experiment.cells:
        earlier = first.setdefault(run_id, axes)
        differ = tuple(axis for axis, value in axes.items() if earlier.get(axis) != value and axis in reasons[run_id])
        if differ:
            number, reason = shared.get(differ, (0, reasons[run_id][differ[0]]))
            shared[differ] = number + 1, reason
    return shared


def _with_idle_keys(runs: Iterable[Run]) -> Iterator[tuple[Run, Mapping[str, str]]]:
    """Yield each distinct run with its keys without effect -> reason. Configs alike in what is read are asked once."""
    idle_keys: dict[str, Recorded] = {}
    for run, spec in _with_trainers(runs):
        if run.trainer not in idle_keys:
            idle_keys[run.trainer] = Recorded(checked_call(spec, "idle_keys"))
        yield run, idle_keys[run.trainer](run.config, run.config)


def _with_trainers(runs: Iterable[Run]) -> Iterator[tuple[Run, Trainer]]:
    """Return each distinct run with its trainer. Each trainer is looked up once."""
    different = {run.id: run for run in runs}.values()
    trainers = {name: find_trainer(name) for name in {run.trainer for run in different}}
    return ((run, trainers[run.trainer]) for run in different)


def call_each(
    runs: Iterable[Run],
    name: str,
    passes: Callable[[Run], bool] = lambda run: False,
) -> list[Any]:
    """Call a method of each run's trainer with its config, unless `passes(run)`, or the trainer has no such method.

    There is one call for runs that agree in what the method reads. Returns what the calls returned.

    Raises the SpecError of such a method, with the run's name.
    """
    calls: dict[str, Recorded] = {}  # by trainer
    values = []
    for run, spec in _with_trainers(runs):
        if not has_own(spec, name):
            continue
        if run.trainer not in calls:
            calls[run.trainer] = Recorded(checked_call(spec, name))
        if calls[run.trainer].recall(run.config) is not NEW or passes(run):
            continue
        try:
            values.append(calls[run.trainer](config_object(run, spec), run.config))
        except SpecError as error:
            error.what = f"{run.name}: {error.what}"
            raise
    return values


# What runs need beside this package: the servers, files and programs of their environments.


def needs_of(runs: Iterable[Run]) -> list[Need]:
    """Return the different needs of these runs, in their order. Raises SpecError if a trainer refuses a run."""
    return list(dict.fromkeys(need for needs in call_each(runs, "needs") for need in needs))


def need_lines(needs: Iterable[Need]) -> list[str]:
    """Return a line for each need, and one with the fix for each that is not there."""
    lines = []
    for need in needs:
        lines.append(f"needs {need.what}: {need.absent or 'it is here'}")
        if need.absent and need.fix:
            lines.append(f"  fix: {need.fix}")
    return lines
