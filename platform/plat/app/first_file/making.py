"""Make a first experiment file for a script: ask it for its options, and write them down."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from plat.app.first_file.asking import output_of
from plat.app.first_file.flags import Flag, flags_of_help
from plat.app.first_file.hydra_config import flags_of_config
from plat.app.first_file.placeholders import Placed, placed
from plat.app.first_file.source_defaults import with_defaults
from plat.app.first_file.user_script import UserScript, user_script
from plat.app.first_file.write import file_text
from plat.errors import SpecError, os_errors_as
from plat.spec.reading.experiment_file import NAME
from plat.store.disk.durable import create

SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True)
class FirstFile:
    """A file that was written.

    executed  the command that was executed to find the options, "" for none
    failure   why this command told no options, "" if it did
    used, left  the options that its command passes, and the others
    """

    path: Path
    script: UserScript
    executed: str
    failure: str
    used: list[Placed]
    left: list[Flag]


def make_first_file(name: str, out: Path | None = None, plain: bool = False, python: str = "") -> FirstFile:
    """Write an experiment file for the script `name`, by default into the current folder.

    out     the file, if not the script's name with `.yaml`
    plain   execute nothing, and write a file without options
    python  the Python that runs the script, a path or a program; "": that of plat

    Raises SpecError, and writes nothing, if there is no such script, the file exists or cannot be written, its name
    cannot name an experiment, or a Python script does not print its options.
    """
    script = user_script(name)
    path = _checked(out or Path(f"{script.path.stem}.yaml"))
    question = None if plain else script.question
    named = _python(python)
    flags, failure = _ask(script, question, named or sys.executable) if question else ([], "")
    used, left = placed(flags)
    folder = os.path.relpath(script.folder, path.absolute().parent)
    text = file_text(script, "" if folder == "." else folder, used, left, named)
    with os_errors_as(SpecError, "cannot write the file", path, "choose another with --out FILE"):
        if not create(path, text.encode("utf-8", "replace")):
            raise _taken(path)
    return FirstFile(path, script, shlex.join(question or ()), failure, used, left)


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
        return flags_of_config(text), ""
    return with_defaults(flags_of_help(text), script.sources if script.is_python else ()), ""


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
