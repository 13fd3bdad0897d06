"""Make a first experiment file for a script: ask it for its options, and write them down."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from plat.app.first_file.asking import WITHOUT, not_given, output_of
from plat.app.first_file.flags import NO_DEFAULT, Flag, Placed, flags_of_help, placed
from plat.app.first_file.user_script import UserScript, user_script
from plat.app.first_file.write import file_text
from plat.errors import SpecError, os_errors_as
from plat.plain_files import parse_yaml
from plat.spec.composition.schema import build
from plat.spec.expansion.experiment import load_experiment
from plat.spec.reading.experiment_file import NAME
from plat.store.disk import durable
from plat.trainer.script.command import placeholders
from plat.trainer.script.config import ScriptRunConfig
from plat.trainer.script.trial import Trial, tried

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class FirstFile:
    """A file that was written.

    executed  the command that was executed to find the options, "" for none
    failure   why this command told no options, "" if it did
    used, left  the options that its command passes, and the others
    trial   what the script did when it was tried, None where it was not
    """

    path: Path
    script: UserScript
    executed: str
    failure: str
    used: list[Placed]
    left: list[Flag]
    trial: Trial | None = None


def make_first_file(
    name: str,
    out: Path | None = None,
    plain: bool = False,
    python: str = "",
    seconds: float = 0.0,
    given: Sequence[str] = (),
) -> FirstFile:
    """Write an experiment file for the script `name`, by default into the current folder.

    out     the file, if not the script's name with `.yaml`
    plain   execute nothing, and write a file without options
    python  the Python that runs the script, a path or a program; "": that of plat
    seconds  run the script for at most so long, and write down what reads its metrics; 0: do not
    given   the words that follow the script in the command, such as a subcommand

    Raises SpecError, and writes nothing, if there is no such script, the file exists or cannot be written, its name
    cannot name an experiment, or a Python script does not print its options. Raises SpecError or RunError, and leaves
    the file, if the script is to be tried and cannot be started, or requires a value. KeyboardInterrupt while it is
    tried leaves no file.
    """
    script = user_script(name, given)
    path = _checked(out or Path(f"{script.path.stem}.yaml"))
    question = None if plain else script.question
    named = _python(python)
    flags, failure = _ask(script, question, named or sys.executable) if question else ([], "")
    used, left = placed(flags)
    folder = os.path.relpath(script.folder, path.absolute().parent)
    write = partial(file_text, script, "" if folder == "." else folder, used, left, named)
    with os_errors_as(SpecError, "cannot write the file", path, "choose another with --out FILE"):
        if not durable.create(path, write().encode("utf-8", "replace")):
            raise _taken(path)
    try:
        trial = _tried(path, script, used, seconds) if seconds else None
    except KeyboardInterrupt:
        path.unlink()  # the same command then makes it
        raise
    if trial is not None and trial.metrics is not None:
        durable.write(path, write(trial).encode("utf-8", "replace"))
    return FirstFile(path, script, shlex.join(question or ()), failure, used, left, trial)


def _tried(path: Path, script: UserScript, used: Sequence[Placed], seconds: float) -> Trial:
    """Run the first run of a new file for some seconds."""
    if required := [one.placeholder for one in used if one.must_be_filled_in]:
        fix = f"write them into the file, then: plat sweep {shlex.quote(str(path))} --first 1"
        raise SpecError(f"not tried: the script requires a value for {', '.join(required)}", where=str(path), fix=fix)
    run = load_experiment(path, []).runs[0]
    config = build(ScriptRunConfig, run.config)
    assert isinstance(config, ScriptRunConfig)
    own = not script.uses_run_dir and not any(name.endswith("run_dir") for name in placeholders(config.script))
    return tried(replace(config, script=replace(config.script, own_folder=own)), seconds, script.uses_mlflow)


def _python(name: str) -> str:
    """Return the absolute path of a Python, links unresolved, "" for none. Raises SpecError if it is not there."""
    if not name:
        return ""
    found = shutil.which(os.path.expanduser(name))
    if found is None:
        raise SpecError(f"there is no Python {name}", where="--python", fix="name one, such as .venv/bin/python")
    return os.path.abspath(found)


def _ask(script: UserScript, question: list[str], python: str) -> tuple[list[Flag], str]:
    """Return the options that a script tells, and the reason if it tells none; only Python scripts must tell them."""
    try:
        text = output_of(question, script.folder, python=python)
    except SpecError as error:
        if script.is_python:
            raise
        return [], error.what
    if script.is_python and script.is_hydra:
        return not_given(flags_of_config(text), script.given, ""), ""
    flags = with_defaults(flags_of_help(text), script.sources if script.is_python else ())
    return not_given(flags, script.given, text), ""


def _checked(path: Path) -> Path:
    """Return the path of the new file. Raises SpecError if it exists, or cannot be an experiment file."""
    if path.suffix not in SUFFIXES:
        raise SpecError("an experiment file ends in .yaml", where=str(path), fix=f"--out {path}.yaml")
    if not NAME.fullmatch(path.stem):
        what = f"the name {path.stem!r} cannot name results"
        fix = "letters, digits, `_`, `-`, `.` and spaces, beginning with a letter, a digit or `_`"
        raise SpecError(what, where=str(path), fix=f"choose a name with --out FILE.yaml: {fix}")
    if not path.absolute().parent.is_dir():
        raise SpecError("there is no such folder", where=str(path.parent), fix="make it, or choose another --out FILE")
    if os.path.lexists(path):
        raise _taken(path)
    return path


def _taken(path: Path) -> SpecError:
    fix = "choose another name with --out FILE.yaml, or remove this file"
    return SpecError("this file exists already, and is not replaced", where=str(path), fix=fix)


# Read the options of a Hydra script from its config, which `--cfg job` prints as YAML.

SILENT = f"let the script print nothing when it starts, or {WITHOUT}"
MISSING = "???"  # a value that the user must give
KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")
PLAIN = re.compile(r"[\w./:@%+-]+")  # Hydra reads such a text as it is


def flags_of_config(text: str) -> list[Flag]:
    """Return an option for each value of a config. Raises SpecError if the text is no YAML mapping.

    Lists and values that Hydra's overrides would need quotes for have no default, so that the script's own is used.
    """
    try:
        config = parse_yaml(text)
    except ValueError as error:
        raise SpecError(f"`--cfg job` printed no YAML: {error}", fix=SILENT) from None
    if not isinstance(config, dict):
        raise SpecError("`--cfg job` printed no config", fix=SILENT)
    return [
        Flag(
            name=key,
            opening=f"{key}=",
            default=_spelled(value),
            says=""
            if _spelled(value) is not None or value == MISSING
            else f"in the config: {json.dumps(value, default=str)}",
            has_several=isinstance(value, list),
            is_required=value == MISSING,
        )
        for key, value in _leaves(config, "")
        if KEY.fullmatch(key)
    ]


def _leaves(config: dict[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _spelled(value: Any) -> str | None:
    """Return a value as an override spells it, None if it has none that is simple."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return value if isinstance(value, str) and PLAIN.fullmatch(value) and value != MISSING else None


# Find the defaults that a script's source gives its options, where the help text does not show them.

DECLARES = ("add_argument", "option")  # of argparse and click


def with_defaults(flags: list[Flag], sources: Iterable[str]) -> list[Flag]:
    """Return the flags; one without a default gets the number or text that the sources write as its `default=`."""
    known = {name: default for source in sources for name, default in _declared(source)}
    return [
        replace(flag, default=known[flag.name])
        if flag.name in known and flag.default is None and (flag.negation or not flag.is_switch)
        else flag
        for flag in flags
    ]


def _declared(source: str) -> Iterator[tuple[str, str]]:
    """Yield (name without dashes, default) of every call such as `add_argument("--lr", default=0.01)`."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in DECLARES:
            continue
        texts = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        for keyword in node.keywords:
            default = _literal(keyword.value) if keyword.arg == "default" else None
            if default not in (None, *NO_DEFAULT):
                yield from ((text[2:], str(default)) for text in texts if text.startswith("--"))


def _literal(node: ast.expr) -> str | None:
    """Return a number, a text or a bool of the source as a command spells it, None for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return str(value) if isinstance(value, int | float | str) else None
