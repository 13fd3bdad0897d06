"""Execute `SCRIPT --help` and return what it prints; nothing else of a script is ever executed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO

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
