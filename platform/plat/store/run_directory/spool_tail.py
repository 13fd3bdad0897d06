"""Read the newest progress in a spool from its end, so that the time does not depend on its length.

Steps never decrease within one attempt but for late events, so the last other line has the newest step. The last line
that names a measure has its newest value.
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
    """The newest step, the newest value of the measure, and the offset in bytes behind the last whole line."""

    step: int | None = None
    value: float | None = None
    offset: int = 0


def read_newest(path: Path, measure: str = HEADLINE) -> Newest:
    """Return the newest step, and value of the metric `measure`, in undamaged lines; None if absent or unreadable."""
    try:
        with open_regular(path) as file:
            return _newest(file, measure, run_of(path))
    except OSError:
        return Newest()


def _newest(file: BinaryIO, measure: str, run: str | None) -> Newest:
    name = json.dumps(measure, ensure_ascii=False).encode()
    step: int | None = None
    end = 0
    for end, lines in _lines_from_end(file):
        for line in reversed(lines):
            if not line.strip() or (step is not None and name not in line):
                continue
            event = parse_line(line, run)
            if not (event.is_damaged or event.late) and step is None:
                step = event.step
            if measure in event.metrics:
                return Newest(step, event.metrics[measure], end)
    return Newest(step, None, end)


def _lines_from_end(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (offset behind the last newline, lines) of each block, the last block first; without an incomplete line."""
    position, rest, end = file.seek(0, os.SEEK_END), b"", 0
    while position:
        start = max(0, position - BLOCK)
        file.seek(start)
        data = file.read(position - start) + rest
        rest, *lines = data.split(b"\n")  # the first line begins in the previous block
        if lines and not end:
            end = start + len(data) - len(lines.pop())
        if end:
            yield end, lines
        position = start
    if end:
        yield end, [rest]
