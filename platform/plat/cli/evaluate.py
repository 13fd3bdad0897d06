"""`plat eval`: a checkpoint on fixed instances, again or under other options."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from plat.cli.common import HomeOption, JsonOption, find_run, print_json
from plat.cli.output import tell
from plat.cli.settings import verb
from plat.errors import CheckpointError, PluginError, SpecError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.trainer.api import State

SAID = 4000  # characters of what libraries printed before they failed, which are shown

Target = Annotated[
    str, typer.Argument(metavar="RUN | CHECKPOINT", help="A run's name or id, or the path of a checkpoint folder.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[KEY=VALUE]...",
        help="Options of the run's config or of the evaluation, e.g. eval.temperature=0 split=heldout.",
    ),
]


@verb(reads_trainers=True)
def evaluate(
    target: Target,
    overrides: Overrides = None,
    last: Annotated[bool, typer.Option("--last", help="The newest checkpoint, not the one at the peak.")] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Evaluate a checkpoint on fixed instances.

    Of a run, the checkpoint at its peak, unless --last.
    """
    from plat.spec.experiment import config_object
    from plat.spec.trainer_calls import EVALUATION, checked_call, checked_value
    from plat.store.run_directory.files import read_config, read_meta
    from plat.trainer.api import find_trainer

    run, checkpoint, state = _find(Home.find(home), target, peak=not last)
    meta, config = read_meta(run), read_config(run)
    trainer = find_trainer(meta.get("trainer") or config.get("trainer", "embedded"))
    if trainer.load_evaluate is None:
        raise SpecError(f"trainer {trainer.name!r} has no evaluation of its own", where=str(checkpoint))
    config, options = _apply(config, overrides or ())
    typed = config_object(config, trainer)
    name = meta.get("name", run.id)
    if sys.stderr.isatty():  # verl takes a minute to start, and nothing else is shown until the end
        tell(f"evaluating {name} at {checkpoint.name} with the trainer {trainer.name}")
    with _what_is_said_kept_back(trainer.name):
        function = checked_call(trainer, "load_evaluate")()
        measured = function(typed, state, Home.find(home).cache, options)
    measured = checked_value(trainer, EVALUATION, measured, function)
    if as_json:
        print_json({"run": run.id, "name": name, "checkpoint": str(checkpoint), "result": measured})
        return 0
    print(f"{name} at {checkpoint.name}")
    for key, value in measured.items():
        if isinstance(value, dict | list):  # per-instance results: in --json only
            continue
        print(f"  {key:32} {value:.4f}" if isinstance(value, float) else f"  {key:32} {value}")
    return 0


@contextmanager
def _what_is_said_kept_back(trainer: str) -> Iterator[None]:
    """What libraries print meanwhile is no result: it goes to stderr, its end alone, and only when they fail."""
    from plat.runner.process import output_to
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
    """The run and the checkpoint meant, its folder and its state, which is read (and its hashes computed) only once.

    CheckpointError when the run has none that is whole, or when the one at its peak is damaged.
    """
    from plat.store.run_directory.checkpoint import load_checkpoint, valid_states

    path = Path(target)
    if path.is_dir() and (path / "meta.json").exists() and path.parent.name == "checkpoints":
        return RunPaths(path.absolute().parents[3]), path.absolute(), load_checkpoint(path)
    if path.is_dir() and not (path / "meta.json").exists():
        raise SpecError(
            "this directory is neither a run's nor a checkpoint",
            where=str(path.absolute()),
            mend="name a run, or a folder HOME/runs/ID/attempts/NUMBER/checkpoints/STEP",
        )
    run = find_run(home, target)
    folders = [attempt.checkpoints for attempt in run.attempts()]
    at_peak = _at_peak(folders) if peak else None
    if at_peak is not None:
        return run, *at_peak
    newest = next(valid_states(folders), None)
    if newest is None:
        raise CheckpointError(
            f"run {target!r} has no whole checkpoint",
            where=str(run.root),
            mend=f"one that runs has it soon; `plat why {run.id[:8]}` says how to go on with one that does not",
        )
    if peak:
        tell(f"note: no checkpoint of this run is marked as its peak; the newest, {newest[1].name}, is evaluated")
    return run, newest[1], newest[2]


def _at_peak(folders: Sequence[Path]) -> tuple[Path, State] | None:
    """The checkpoint at the run's peak, as the newest checkpoint names it; None when no peak is marked.

    CheckpointError when that one is damaged, or when the newest is so damaged that nobody knows where the peak was:
    another checkpoint must not pass for the peak.
    """
    from plat.store.run_directory.checkpoint import list_checkpoints, read_notes, step_folder, valid_states

    steps = [(step, index) for index, folder in enumerate(folders) for step, _ in list_checkpoints(folder)]
    if not steps:
        return None
    step, index = max(steps)
    newest = step_folder(folders[index], step)
    peak_step = read_notes(newest).peak_step
    if peak_step is None:  # it is damaged, it was written before checkpoints named the peak, or there is no peak
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
        mend = "--last evaluates the newest whole checkpoint; or name a checkpoint's folder"
        raise CheckpointError(what, where=str(checkpoint), mend=mend) from error


def _apply(config: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Overrides of keys that the config has change it; the others are options for the trainer's evaluation."""
    import copy

    from plat.spec.overrides import parse_overrides
    from plat.store.mlflow.spelling import flatten
    from plat.suggest import mend

    config, known, options = copy.deepcopy(config), flatten(config), {}
    for assignment in parse_overrides(list(overrides)).assignments:
        if assignment.key in known:
            *path, last = assignment.key.split(".")
            below = config
            for name in path:
                below = below[name]
            below[last] = assignment.value
        elif "." in assignment.key:
            raise SpecError(
                f"the run's config has no {assignment.key!r}",
                where=assignment.where,
                mend=mend(assignment.key, known, "keys"),
            )
        else:
            options[assignment.key] = assignment.value
    return config, options
