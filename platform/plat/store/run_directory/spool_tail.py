"""The newest progress in a spool, read from its end, so that a long spool costs no more than a short one.

Steps never go back within one attempt, so that the last whole line has the newest step. The newest value of a measure
is on the last line that names it, which is usually near the end, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from plat.plain_files import open_regular
from plat.store.run_directory.paths import run_of
from plat.store.run_directory.spool import parse_line
from plat.trainer.api import HEADLINE

BLOCK = 1 << 18  # bytes read at once


@dataclass(frozen=True)
class Newest:
    """The newest step, the newest value of the measure, and the offset of `read_events` behind the last whole line."""

    step: int | None = None
    value: float | None = None
    offset: int = 0


def read_newest(path: Path, measure: str = HEADLINE) -> Newest:
    """The newest step and value in a spool. Damaged lines are passed over; an absent or unreadable file has neither."""
    try:
        with open_regular(path) as file:
            return _newest(file, measure, run_of(path))
    except OSError:
        return Newest()


def _newest(file: BinaryIO, measure: str, run: str | None) -> Newest:
    end = _end_of_last_line(file)
    name = json.dumps(measure, ensure_ascii=False).encode()
    step: int | None = None
    for lines in _lines_from_end(file, end):
        for line in reversed(lines):
            if step is not None and name not in line:
                continue
            event = parse_line(line, run)
            if not event.is_damaged and step is None:
                step = event.step
            if measure in event.metrics:
                return Newest(step, event.metrics[measure], end)
    return Newest(step, None, end)


def _end_of_last_line(file: BinaryIO) -> int:
    """The offset behind the last newline; what follows it is a line still being written, or cut short by a kill."""
    position = file.seek(0, os.SEEK_END)
    while position:
        start = max(0, position - BLOCK)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def _lines_from_end(file: BinaryIO, end: int) -> Iterator[list[bytes]]:
    """The lines before `end` in blocks, the last block first; within a block in the order of the file."""
    position, rest = end, b""
    while position:
        start = max(0, position - BLOCK)
        file.seek(start)
        first, *complete = (file.read(position - start) + rest).split(b"\n")
        position, rest = start, first  # the beginning of `first` is in the block before
        yield [line for line in complete if line.strip()]
    if rest.strip():
        yield [rest]
