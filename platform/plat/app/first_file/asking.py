"""Execute `SCRIPT --help` and return what it prints; nothing else of a script is ever executed."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import IO

from plat.app.first_file.flags import Flag
from plat.app.first_file.user_script import OWN
from plat.characters import as_lines
from plat.errors import SpecError

LIMIT = 20.0  # seconds
LARGEST = 1 << 20  # bytes of output that are read
WIDE = {"COLUMNS": "200", "TERMINAL_WIDTH": "200", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
WITHOUT = "add --plain, which executes nothing and writes a file without flags"


def output_of(words: list[str], folder: Path, limit: float = LIMIT, python: str = sys.executable) -> str:
    """Return what a command prints on its standard output, in this folder and without input.

    `python` as its first word is the Python at the path `python`.

    Raises SpecError if it cannot be started, does not end within `limit` seconds, or ends with another code than 0. All
    processes of its group have ended then.
    """
    shown, program = shlex.join(words), python if words[0] == "python" else words[0]
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complaints:
        # files, because a pipe would stay open as long as a process that the command leaves behind
        try:
            process = subprocess.Popen(
                [program, *words[1:]],
                cwd=folder,
                env={**os.environ, **WIDE},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=complaints,
                start_new_session=True,
            )
        except OSError as error:
            raise SpecError(f"cannot start {shown}: {error.strerror}", where=str(folder), fix=WITHOUT) from None
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            what = f"{shown} did not end within {limit:g} s, and was killed"
            raise SpecError(what, where=str(folder), fix=WITHOUT) from None
        finally:
            _end(process)
        text, complaint = _content(printed), _content(complaints)
    if code:
        how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
        last = next((line.strip() for line in reversed(f"{text}\n{complaint}".splitlines()) if line.strip()), "")
        what = f"{shown} ended with {how}" + (f": {last[:300]}" if last else "")
        fix = f"make this command work, or {WITHOUT}"
        if "ModuleNotFoundError" in last:
            fix = f"this was {python}: name the Python that has it with --python PATH, or {WITHOUT}"
        raise SpecError(what, where=str(folder), fix=fix)
    return text


def _content(file: IO[bytes]) -> str:
    file.seek(0)
    return as_lines(file.read(LARGEST).decode("utf-8", "replace"))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the group of a process, also what is left of it after the process has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


# The words that a user gives after the script, such as a subcommand: they stay, and no option is passed twice.

_BARE = re.compile(r"[\w./=:,+@%{}-]+")  # a word that needs no quotes


def not_given(flags: Iterable[Flag], given: Sequence[str], help_text: str) -> list[Flag]:
    """Return the options that the words after the script do not have yet.

    Words before the first option are subcommands, which the usage in the help text names after the program, and then
    the values of the first arguments without a name.
    """
    names = {word.partition("=")[0].lstrip("+~") for word in given}
    usage = re.search(r"usage:\s*(.*)", help_text, re.IGNORECASE)
    before = list(takewhile(lambda word: word[0] not in "[-", usage[1].split() if usage else []))
    values = list(takewhile(lambda word: not word.startswith("-"), given))
    while values and values[0] in before:
        before.remove(values.pop(0))
    left: list[Flag] = []
    for flag in flags:
        if not flag.opening and values:
            values.pop(0)
        elif names.isdisjoint({flag.opening.strip(" =") or None, flag.negation or None, *flag.spellings}):
            left.append(flag)
    return left


def as_written(word: str) -> str:
    """Return a word of the command as the file spells it: braces are doubled, but for plat's own placeholders."""
    doubled = word.replace("{", "{{").replace("}", "}}")
    kept = re.sub(rf"\{{{OWN.pattern}\}}", r"{\1}", doubled)
    return kept if _BARE.fullmatch(kept) else shlex.quote(kept)


def passes_seed(given: Iterable[str]) -> bool:
    return any("{seed}" in word or "{plat.seed}" in word for word in given)
