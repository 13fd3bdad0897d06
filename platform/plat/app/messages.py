"""Messages and progress of use cases: printed by the command line, otherwise sent to the logger `plat`."""

from __future__ import annotations

import contextlib
import errno
import io
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from plat.errors import HomeError, PlatError, SpecError

logger = logging.getLogger("plat")
logger.addHandler(logging.NullHandler())  # a library prints nothing unless its user configures logging
FIRST_SECONDS = 3.0  # before the first message of `followed`
EVERY_SECONDS = 10.0  # between two of its messages
T = TypeVar("T")
LEVELS = {"error": logging.ERROR, "warning": logging.WARNING}


@dataclass
class Stage:
    """Progress of the current use case.

    dispatched  runs have begun: if the disk or store now fails, runs may have been done already
    concluded   the outcome was printed
    """

    dispatched: bool = False
    concluded: bool = False


stage = Stage()
_printers: list[Callable[[str], None]] = []


def tell(text: str) -> None:
    """Print a message inside `printed_by`, else log it: a prefix such as `warning: ` sets the level, default INFO."""
    if _printers:
        _printers[-1](text)
        return
    kind, colon, rest = text.partition(": ")
    level = LEVELS.get(kind, logging.INFO)
    logger.log(level, rest if colon and kind in (*LEVELS, "note") else text)


class _Waiting(logging.Handler):
    """Print what a command waits for (`plat.store.disk.durable.locked`), inside `printed_by`."""

    def emit(self, record: logging.LogRecord) -> None:
        if _printers:
            tell(f"note: {record.getMessage()}")


logging.getLogger("plat.waiting").addHandler(_Waiting())


class Telling(io.StringIO):
    """A text stream that gives each line to `tell`."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = ""

    def write(self, text: str) -> int:
        """Tell the lines that are complete; keep the rest for the next call."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in filter(str.strip, lines):
            tell(line)
        return len(text)


@contextlib.contextmanager
def printed_by(printer: Callable[[str], None]) -> Iterator[None]:
    """Print messages with `printer` inside the `with` block, and start a new stage."""
    stage.dispatched = stage.concluded = False
    _printers.append(printer)
    try:
        yield
    finally:
        _printers.pop()


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """Also collect the messages that are told inside the `with` block."""
    found: list[str] = []
    before = _printers[-1] if _printers else None

    def both(text: str) -> None:
        found.append(text)
        if before is not None:
            before(text)

    _printers.append(both)
    try:
        yield found
    finally:
        _printers.pop()


def followed(items: Sequence[T], doing: str, /) -> Iterator[T]:
    """Yield the items; if that takes long and stderr is a terminal, print or log `doing: 120 of 720 ...`."""
    due = time.monotonic() + FIRST_SECONDS
    for done, item in enumerate(items):
        if time.monotonic() >= due and sys.stderr.isatty():
            tell(f"{doing}: {done:,} of {len(items):,} ...")
            due = time.monotonic() + EVERY_SECONDS
        yield item


# Errors of the operating system in plat's words, for the command line and the Python API.

MIXED_UP = (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ELOOP)
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def in_our_words(error: OSError) -> PlatError | None:
    """Return the error to show for a name that is too long, a full disk, a refusal and the like; None for others."""
    name = str(error.filename or "")
    if error.errno == errno.ENAMETOOLONG:
        return SpecError("a file name that is too long", where=_cut(name) or None, fix="give a shorter one")
    if error.errno in MIXED_UP and name:
        what = f"there is a file where a folder is needed, or a folder where a file is needed: {error.strerror}"
        return HomeError(what, where=name, fix="move away what is there, then give the same command again")
    if error.errno in REFUSED:
        fix = "free some disk space or fix the permissions, then give the same command again"
        fix += "; or choose another home with --home DIR"
        return HomeError(f"cannot read or write: {error.strerror}", where=name or None, fix=fix)
    return None


def _cut(text: str, room: int = 100) -> str:
    """Return the text, or its beginning and end if it is longer than `room`."""
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-room // 4 :]}"
