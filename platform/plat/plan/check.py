"""What a trainer itself checks of the runs that are planned or about to be submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from plat.errors import SpecError
from plat.spec.experiment import Experiment, Run, config_object
from plat.spec.recorded import NEW, Recorded
from plat.spec.trainer_calls import checked_call
from plat.store.home import Home
from plat.store.index.runs import states
from plat.trainer.api import TrainerSpec, find_trainer
from plat.user_code import user_code


def check_runs(runs: Iterable[Run]) -> None:
    """Ask each run's trainer, wherever the runs are to be executed; SpecError names the first run that cannot run.

    Runs that differ only in what the trainer's check does not read are asked about once.
    """
    checks: dict[str, Recorded] = {}
    for run, spec in _with_trainers(runs):
        if spec.load_check is None:
            continue
        if run.trainer not in checks:
            checks[run.trainer] = Recorded(checked_call(spec, "load_check")())
        check = checks[run.trainer]
        with user_code(f"`load_check` of the trainer {spec.name!r} failed"):
            if check.recall(run.config) is NEW:
                _ask(partial(check, sections=run.config), run, spec)


def not_done(runs: Iterable[Run], home: Home) -> list[Run]:
    """The runs that have no result in this home: the others need no check, for somebody else may have done them."""
    different = {run.id: run for run in runs}
    return [different[run_id] for run_id, state in states(home, different).items() if state.state != "done"]


def check_machine(runs: Iterable[Run], home: Home) -> None:
    """Ask about the runs that are still to be executed on this machine; SpecError names the first for which it is too
    small."""
    for run, spec in _with_trainers(runs):
        if spec.check_machine is not None and not home.run(run.id).result.exists():
            with user_code(f"`check_machine` of the trainer {spec.name!r} failed"):
                _ask(spec.check_machine, run, spec)


def idle_overrides(runs: Iterable[Run], keys: Iterable[str]) -> dict[str, str]:
    """Which of these keys have no effect in any of the runs, each with the reason that the last of them gives."""
    idle: dict[str, str] = dict.fromkeys(keys, "")
    for _, reasons in _with_idle_keys(runs):
        if not idle:
            break
        idle = {key: reasons[key] for key in idle if key in reasons}
    return idle


def shared_positions(experiment: Experiment) -> dict[tuple[str, ...], tuple[int, str]]:
    """Which positions of a matrix share the run of an earlier one, because their axes have no effect there.

    By the axes in which they differ from it: how many positions there are, and why the first of the axes has no effect.
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
    """Each run once, with the keys of its config that have no effect and why; trainers are asked as rarely as
    `check_runs` asks them."""
    idle_keys: dict[str, Recorded] = {}
    for run, spec in _with_trainers(runs):
        if run.trainer not in idle_keys:
            idle_keys[run.trainer] = Recorded(checked_call(spec, "idle_keys"))
        yield run, idle_keys[run.trainer](run.config, run.config)


def _with_trainers(runs: Iterable[Run]) -> Iterator[tuple[Run, TrainerSpec]]:
    """Each run once, with its trainer, which is looked for once."""
    different = {run.id: run for run in runs}.values()
    trainers = {name: find_trainer(name) for name in {run.trainer for run in different}}
    return ((run, trainers[run.trainer]) for run in different)


def _ask(check: Callable[[Any], None], run: Run, spec: TrainerSpec) -> None:
    try:
        check(config_object(run, spec))
    except SpecError as error:
        error.what = f"{run.name}: {error.what}"
        raise
