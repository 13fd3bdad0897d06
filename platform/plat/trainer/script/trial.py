"""Run a script for some seconds, and find the setting that reads its metrics."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from plat.characters import as_lines, escaped
from plat.errors import RunError
from plat.trainer.script.advice import kind_of, with_any_number, written
from plat.trainer.script.command import OUTPUT, arguments, filled, filled_variables, search_path
from plat.trainer.script.config import MLFLOW, TENSORBOARD, TEXT, TRACKIO, WANDB, ScriptConfig, ScriptRunConfig
from plat.trainer.script.process import Line, Script
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.output import Output
from plat.trainer.script.readers.text import plain
from plat.trainer.script.source_files import OF_PLAT, followed_files, opened, prepared

GRACE = 5.0  # seconds from SIGTERM to SIGKILL
TICK = 0.1  # seconds
SHOWN = 3  # lines of the output


@dataclass(frozen=True)
class Trial:
    """What a script did in its first seconds.

    seconds  how long it ran
    code     its exit code, None if it was ended
    metrics  the `script.metrics` that reads it, "" for the default; None where nothing was read
    names    the metrics that this reads, most values first
    steps    the lowest and the highest step
    lines    the last lines of its output
    shared   a file of metrics that it wrote outside of the run's folder, "" for none
    own_folder  whether it writes files into the folder that it runs in, which is one of its own here
    """

    seconds: float
    code: int | None
    metrics: str | None
    names: list[str]
    steps: tuple[int, int]
    lines: list[str]
    shared: str
    own_folder: bool


def tried(config: ScriptRunConfig, seconds: float, uses_mlflow: bool) -> Trial:
    """Run the script of a config for at most `seconds`, and read what it has logged by then.

    With `script.own_folder` it runs in a folder of its own; if it fails there, in its usual folder, where what it
    writes stays. The settings are tried in this order: the default, the files of loggers' clients, other files of
    metrics, text. Raises RunError if it cannot be started.
    """
    first = _tried(config, seconds, uses_mlflow)
    if first.metrics is not None or first.code in (None, 0) or not config.script.own_folder:
        return first
    return _tried(replace(config, script=replace(config.script, own_folder=False)), seconds, uses_mlflow)


def _tried(config: ScriptRunConfig, seconds: float, uses_mlflow: bool) -> Trial:
    clients = [TENSORBOARD, WANDB, TRACKIO, *([MLFLOW] if uses_mlflow else [])]  # a store of MLflow takes seconds
    with tempfile.TemporaryDirectory(prefix="plat-try-") as made:
        files = Path(made, "files")
        files.mkdir()
        (files / "checkpoints").mkdir()
        places = placed(config, files)
        script = replace(config.script, metrics=clients)
        variables = environment(config, places) | prepared(script, files, Path(made))
        words, folder = filled(config, places), Path(config.script.folder)
        if config.script.own_folder:
            link_files(config, files)
            words, folder = with_folders(config, words), files
            variables["PYTHONPATH"] = searched(variables, config.script.folder)
        given, started = set(os.listdir(files)), time.time()
        with Path(made, "log").open("w") as log, contextlib.redirect_stdout(log):
            process = Script(words, folder, variables, needle=b"")
            lines = list(_followed(process, seconds))
        took, code = time.time() - started, process.code
        below = [path for path in written(files, started) if kind_of(path) == "file" and path.name != OF_PLAT]
        metrics, logged = None, list[Logged]()
        has_failed = took < seconds and code != 0
        for setting in (
            [] if has_failed else ["", *clients, *(with_any_number(path.relative_to(files)) for path in below), TEXT]
        ):
            with contextlib.suppress(RunError):
                if logged := list(_read(replace(config.script, metrics=setting), files, lines)):
                    metrics = setting
                    break
        elsewhere = [path for path in written(Path(script.folder), started) if kind_of(path)]
        return Trial(
            took,
            code if took < seconds else None,
            metrics,
            _names(logged),
            (min((one.step for one in logged), default=0), max((one.step for one in logged), default=0)),
            [escaped(as_lines(plain(line.text.decode("utf-8", "replace")))) for line in lines[-SHOWN:]],
            str(elsewhere[0]) if elsewhere else "",
            config.script.own_folder and not given.issuperset(set(os.listdir(files)) - {OF_PLAT}),
        )


def _followed(process: Script, seconds: float) -> Iterator[Line]:
    """Yield the output until the script has ended, which is asked for after `seconds`."""
    ask_at = time.monotonic() + seconds
    try:
        while process.code is None and time.monotonic() < ask_at:
            yield from process.output(TICK)
        if process.code is None:
            process.ask_to_end()
        while process.code is None and time.monotonic() < ask_at + GRACE:
            yield from process.output(TICK)
    finally:
        if process.code is None:
            process.kill()
        yield from process.rest_of_output()
        process.close()


def _read(script: ScriptConfig, files: Path, lines: Iterable[Line]) -> Iterator[Logged]:
    """Yield what a setting of `script.metrics` reads. Raises RunError if it cannot be read."""
    output = Output(script.step, lambda *_: None, text=script.metrics == TEXT, patterns=script.patterns)
    if not script.metrics or script.metrics == TEXT:
        for line in lines:
            yield from output.read(*line)
        yield from output.end()
    if script.metrics != TEXT:
        for source in opened(script, files, lambda *_: None, 1):
            yield from source.new(is_last=True)


def _names(logged: Iterable[Logged]) -> list[str]:
    counts: dict[str, int] = {}
    for one in logged:
        for name in one.metrics:
            counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: -counts[name])


# Let a command run in a folder of its own, its PLAT_RUN_DIR, so that what it writes there is of this run alone.
#
# The folder has links to the files that the command names or `script.files` lists, at the same relative paths. It has
# no links to folders, because a script could write into these: folders that the command names become absolute paths.

FILES_OF_PLAT = ("config.json", "metrics.jsonl", "checkpoints")  # what plat itself has in the folder


def link_files(config: ScriptRunConfig, files: Path) -> None:
    """Link the followed files of a run into its folder. Raises RunError where plat has something under that name."""
    folder = os.path.abspath(config.script.folder)
    for path in followed_files(config)[0]:
        below = os.path.relpath(path, folder)
        if below.startswith(".."):
            continue
        if below.split(os.sep)[0] in FILES_OF_PLAT:
            fix = "rename it, or leave script.own_folder out and let the script write below {plat.run_dir}"
            raise RunError(f"the folder of a run has a {below} of plat", where="script.own_folder", fix=fix)
        link = files / below
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):  # else the script has replaced it in an earlier attempt
            link.symlink_to(os.path.join(folder, below))


def with_folders(config: ScriptRunConfig, words: Sequence[str]) -> list[str]:
    """Return the words of a command in which folders, and files outside of `script.folder`, are absolute paths.

    What follows an option for an output, such as `--out`, stays: it is to be in the folder of the run.
    """
    folder, found = Path(os.path.abspath(config.script.folder)), list(words[:1])
    for before, word in pairwise(words):
        option, separator, value = word.partition("=")
        text = value if separator else word
        path = Path(os.path.normpath(folder / text))
        is_kept = OUTPUT.fullmatch(option if separator else before) or path == folder or os.path.isabs(text)
        is_needed = path.is_dir() or (path.is_file() and not path.is_relative_to(folder))
        found.append(word.removesuffix(text) + str(path) if text and is_needed and not is_kept else word)
    return found


# The folders of a run of a script, and the environment in which its command runs.


def placed(config: ScriptRunConfig, files: Path, is_resumed: bool = False) -> dict[str, str]:
    """Write the run's config into its folder, and return the values of `command.OF_THE_RUN` there.

    is_resumed   whether the folder of checkpoints has those of an earlier attempt
    """
    places = {name: str(files / below) for name, below in (("run_dir", ""), ("checkpoint_dir", "checkpoints"))}
    places["config"] = str(files / "config.json")
    Path(places["config"]).write_text(json.dumps(arguments(config), indent=1) + "\n")
    return {**places, "checkpoint": places["checkpoint_dir"] if is_resumed else ""}


def environment(config: ScriptRunConfig, places: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that a command gets, on top of those of this process."""
    return {
        "PATH": search_path(config.script),
        "OMP_NUM_THREADS": str(config.script.threads),
        "PYTHONUNBUFFERED": "1",  # lines of the output arrive when they are printed
        **filled_variables(config, places),
        "PLAT_RUN_DIR": places["run_dir"],
        "PLAT_CHECKPOINT_DIR": places["checkpoint_dir"],
        "PLAT_CONFIG": places["config"],
        "PLAT_SEED": str(config.seed),
    }


def searched(variables: Mapping[str, str | None], first: str) -> str:
    """Return PYTHONPATH of a command with these variables, with a folder before it."""
    path = variables.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, [os.path.abspath(first), path]))
