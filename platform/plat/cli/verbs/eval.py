"""`plat eval`: evaluate a checkpoint on fixed instances, under the run's options or other ones."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from plat.app.home_runs import find_run, home_to_read
from plat.cli.common import HomeOption, verb
from plat.cli.completion import keys, runs
from plat.cli.result import Result
from plat.cli.schemas.runs import EvalData
from plat.cli.screen.output import tell
from plat.errors import CheckpointError, PluginError, SpecError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.trainer.api import State, has_own

SAID = 4000  # characters shown of what libraries printed before they failed

Target = Annotated[
    str,
    typer.Argument(
        metavar="RUN | CHECKPOINT",
        help="A run's name or id, or the path of a checkpoint folder.",
        autocompletion=runs,
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Options of the run or of the evaluation, e.g. batch_size=64 split=test.",
        autocompletion=keys,
    ),
]


@verb(EvalData, reads_trainers=True)
def evaluate(
    target: Target,
    overrides: Overrides = None,
    last: Annotated[bool, typer.Option("--last", help="The newest checkpoint, not the one at the peak.")] = False,
    home: HomeOption = None,
) -> Result:
    """Evaluate a checkpoint on fixed instances.

    For a run, the checkpoint at its peak is taken, unless --last is given.
    """
    from plat.spec.composition.trainer_calls import checked_call
    from plat.spec.expansion.experiment import config_object
    from plat.store.run_directory.run_files import read_config, read_meta
    from plat.trainer.finding import default_trainer, find_trainer

    run, checkpoint, state = _find(home_to_read(home), target, peak=not last)
    meta, config = read_meta(run), read_config(run)
    trainer = find_trainer(str(meta.get("trainer") or config.get("trainer") or default_trainer()), Path())
    if not has_own(trainer, "evaluate"):
        raise SpecError(f"trainer {trainer.name!r} has no evaluation of its own", where=str(checkpoint))
    config, options = _apply(config, overrides or ())
    typed = config_object(config, trainer)
    name = meta.get("name", run.id)
    if sys.stderr.isatty():  # a large model takes a minute to load, without other output until the end
        tell(f"evaluating {name} at {checkpoint.name} with the trainer {trainer.name}")
    with _what_is_said_kept_back(trainer.name):
        measured = checked_call(trainer, "evaluate")(typed, state, Home.find(home).cache, options)
    lines = [f"{name} at {checkpoint.name}"]
    for key, value in measured.items():
        if not isinstance(value, dict | list):  # per-instance results: in --json only
            lines.append(f"  {key:32} {value:.4f}" if isinstance(value, float) else f"  {key:32} {value}")
    data = {"run": run.id, "name": name, "checkpoint": str(checkpoint), "result": measured}
    return Result(data, "\n".join(lines))


@contextmanager
def _what_is_said_kept_back(trainer: str) -> Iterator[None]:
    """Hold back what libraries print: if the evaluation fails, the last SAID characters go to stderr, else nothing."""
    from plat.processes.own_process import output_to
    from plat.user_code import user_code

    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "said.txt"
        try:
            with output_to(log), user_code(f"the evaluation of the trainer {trainer!r} failed"):
                yield
        except PluginError:
            tell(log.read_text(errors="replace")[-SAID:])
            raise


def _find(home: Home, target: str, *, peak: bool) -> tuple[RunPaths, Path, State]:
    """Return the run, its checkpoint folder and the checkpoint's state, which is read and hashed only once.

    Raises SpecError for an unknown target, and CheckpointError for a damaged peak or a run without valid checkpoint.
    """
    from plat.store.run_directory.checkpoint import load_checkpoint, valid_states

    path = Path(target)
    if path.is_dir() and (path / "meta.json").exists() and path.parent.name == "checkpoints":
        return RunPaths(path.absolute().parents[3]), path.absolute(), load_checkpoint(path)
    if path.is_dir() and not (path / "meta.json").exists():
        fix = "name a run, or a folder HOME/runs/ID/attempts/NUMBER/checkpoints/STEP"
        raise SpecError("this directory is neither a run's nor a checkpoint", where=str(path.absolute()), fix=fix)
    run = find_run(home, target)
    folders = [attempt.checkpoints for attempt in run.attempts()]
    at_peak = _at_peak(folders) if peak else None
    if at_peak is not None:
        return run, *at_peak
    newest = next(valid_states(folders), None)
    if newest is None:
        fix = f"if the run is running, wait for its first checkpoint; else `plat why {run.id[:8]}` says how to continue"
        raise CheckpointError(f"run {target!r} has no complete checkpoint", where=str(run.root), fix=fix)
    if peak:
        tell(f"note: no checkpoint of this run is marked as its peak; the newest, {newest[1].name}, is evaluated")
    return run, newest[1], newest[2]


def _at_peak(folders: Sequence[Path]) -> tuple[Path, State] | None:
    """Return the checkpoint at the run's peak, which the newest checkpoint names; None when no peak is marked.

    Raises CheckpointError when either is damaged, so that no other checkpoint is taken for the peak.
    """
    from plat.store.run_directory.checkpoint import list_checkpoints, read_notes, step_folder, valid_states

    steps = [(step, index) for index, folder in enumerate(folders) for step, _ in list_checkpoints(folder)]
    if not steps:
        return None
    step, index = max(steps)
    newest = step_folder(folders[index], step)
    peak_step = read_notes(newest).peak_step
    if peak_step is None:  # the newest is damaged or older than the mark of the peak, or there is no peak
        _load_or_explain(newest, "the newest checkpoint, which says where the peak was, is damaged")
        marked = next(valid_states(list(folders), peak=True), None)
        return marked[1:] if marked else None
    index = max((index for step, index in steps if step == peak_step), default=index)
    path = step_folder(folders[index], peak_step)
    return path, _load_or_explain(path, f"the checkpoint at the peak (step {peak_step}) is missing or damaged")


def _load_or_explain(checkpoint: Path, what: str) -> State:
    from plat.store.run_directory.checkpoint import load_checkpoint

    try:
        return load_checkpoint(checkpoint)
    except CheckpointError as error:
        fix = "evaluate the newest complete checkpoint with --last, or name a checkpoint's folder"
        raise CheckpointError(what, where=str(checkpoint), fix=fix) from error


def _apply(config: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config changed by overrides of its keys, and all other overrides as options of the evaluation."""
    import copy

    from plat.spec.reading.overrides import parse_overrides
    from plat.store.mlflow.run_tags import flatten
    from plat.suggest import suggest

    config, known, options = copy.deepcopy(config), flatten(config), {}
    for assignment in parse_overrides(list(overrides)).assignments:
        if assignment.key in known:
            *path, last = assignment.key.split(".")
            below = config
            for name in path:
                below = below[name]
            below[last] = assignment.value
        elif "." in assignment.key:
            what = f"the run's config has no {assignment.key!r}"
            raise SpecError(what, where=assignment.where, fix=suggest(assignment.key, known, "keys"))
        else:
            options[assignment.key] = assignment.value
    return config, options
