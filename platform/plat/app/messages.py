"""Messages and progress of use cases: printed by the command line, otherwise sent to the logger `plat`."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

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


def followed(items: Sequence[T], doing: str, /) -> Iterator[T]:
    """Yield the items; if that takes long and stderr is a terminal, print or log `doing: 120 of 720 ...`."""
    due = time.monotonic() + FIRST_SECONDS
    for done, item in enumerate(items):
        if time.monotonic() >= due and sys.stderr.isatty():
            tell(f"{doing}: {done:,} of {len(items):,} ...")
            due = time.monotonic() + EVERY_SECONDS
        yield item
