"""Read metrics of a script: lines of JSON in its output or in a file, and CSV files."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import RunError
from plat.plain_files import open_regular

STEPS = ("step", "iteration", "epoch", "global_step")  # the names of a step if the experiment file names none
TIME = "time"  # seconds since 1970, written by `plat.log`
LONGEST_LINE = 1 << 20  # bytes; a longer line is no metrics
LARGEST_STEP = 2**53  # larger numbers are not exact
LONGEST_MESSAGE = 200  # characters


class Logged(NamedTuple):
    """The metrics of one step. `time`: when they were logged, in seconds since 1970."""

    step: int
    metrics: dict[str, float]
    time: float


class Lines:
    """Turn lines into metrics. A line without a step gets the number of the line before it plus one.

    step   the key of the step; "" for the first of STEPS that a line has
    """

    def __init__(self, step: str) -> None:
        self._keys = (step,) if step else STEPS
        self._next = 1

    def of_text(self, line: str | bytes, at: float | None = None) -> Logged | None:
        """Return the metrics of a line that is a JSON object with numbers; None for any other line."""
        if line.strip()[:1] not in (b"{", "{"):
            return None
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return self.of_values(values, at)

    def of_values(self, values: Mapping[str, Any], at: float | None = None) -> Logged | None:
        """Return the metrics among these values, those that are numbers; None if there are none.

        Raises RunError if the step is no whole number from 0 to LARGEST_STEP.
        """
        key = next((name for name in self._keys if name in values), None)
        stated = _number(values[key]) if key is not None else float(self._next)
        if stated is None or not 0 <= stated <= LARGEST_STEP or stated != int(stated):
            shown = f"{key} is {values.get(key or '')!r}"[:LONGEST_MESSAGE]
            what = f"the script logged a step that is no whole number from 0 to 2**53: {shown}"
            raise RunError(what, fix="print steps such as 1, 2, 3, or name their key with script.step")
        metrics = {
            name: number
            for name, value in values.items()
            if name not in (key, TIME) and (number := _number(value)) is not None
        }
        if not metrics:
            return None
        self._next = int(stated) + 1
        logged_at = _number(values.get(TIME)) or at or time.time()
        return Logged(int(stated), metrics, logged_at)


class MetricsFile:
    """The metrics in a file that a script appends to; a file that ends in .csv has a header line."""

    def __init__(self, path: Path, step: str) -> None:
        self._path = path
        self._lines = Lines(step)
        self._offset = 0
        self._is_cut = False  # the line at `_offset` is the rest of one that is too long
        self._header: list[str] = []

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics of the lines since the last call. A line without an end waits, unless `is_last`."""
        try:
            file = open_regular(self._path)
        except OSError:
            return
        with file:
            size = os.fstat(file.fileno()).st_size  # what comes later is for the next call
            file.seek(self._offset)
            while self._offset < size and (line := file.readline(LONGEST_LINE)):
                has_end, is_long = line.endswith(b"\n"), len(line) == LONGEST_LINE
                if not (has_end or is_long or is_last):
                    return
                self._offset += len(line)
                was_cut, self._is_cut = self._is_cut, not has_end and is_long
                if not was_cut and not self._is_cut and (logged := self._logged(line.strip())):
                    yield logged

    def _logged(self, line: bytes) -> Logged | None:
        if self._path.suffix != ".csv":
            return self._lines.of_text(line)
        cells = next(csv.reader([line.decode("utf-8", "replace")]), [])
        if not self._header:
            self._header = [cell.strip() for cell in cells]
            return None
        return self._lines.of_values(dict(zip(self._header, cells, strict=False)))


def _number(value: Any) -> float | None:
    """Return a number, or the text of one, as float; None for everything else, truth values included."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None
