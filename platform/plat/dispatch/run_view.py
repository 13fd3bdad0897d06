"""A run in progress as every live screen shows it: its facts, the cells of its row, and the lines of a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from plat.characters import one_line, wrapped
from plat.text_rows import row_blocks
from plat.units import duration, iteration, percent

LAST = ("step time", "time", "left")  # columns


@dataclass(frozen=True)
class View:
    """A run or a preparation. A cell is empty while its value is None.

    id                of the run; of a preparation that of its job
    state             as the screen names it
    step              iterations done; of a preparation the steps done that its log counts (51 of "step 51/1500")
    iterations        total iterations; of a preparation the total steps (1500)
    shown             label -> newest value of further metrics, shares from 0 to 1
    pace              mean seconds per step, over the last steps
    seconds           since it started here
    eta               expected seconds until its end
    note              of a run before its first event: its current activity; of a preparation: the last line of its log
    """

    id: str
    title: str
    state: str
    step: int | None = None
    iterations: int | None = None
    success: float | None = None
    shown: Mapping[str, float] = field(default_factory=dict)
    pace: float | None = None
    seconds: float | None = None
    eta: float | None = None
    note: str = ""
    kind: str = "run"

    @property
    def cells(self) -> dict[str, str]:
        """Column -> text of the row, "" where the run has no value, in the order in which they are shown."""
        pace = "" if self.pace is None else f"{self.pace:.2f} s"
        time, left = ("" if seconds is None else duration(seconds) for seconds in (self.seconds, self.eta))
        return {
            "state": self.state,
            "iteration": iteration(self.step, self.iterations),
            "success": percent(self.success),
            **{label: percent(value) for label, value in self.shown.items()},
            "step time": pace,
            "time": time,
            "left": left,
        }


def laid_out(views: Sequence[View], width: int) -> tuple[list[str], list[list[str]]]:
    """Return (header lines, lines of each row) of a table without empty columns; a line takes at most `width` columns.

    In a narrow terminal a name stands above its cells, and the header may be []. Below a row stands the run's note.
    """
    if not views:
        return [], []
    names, values = [one_line(view.title) for view in views], [view.cells for view in views]
    columns = [name for name in _columns(values) if name == "state" or any(row.get(name) for row in values)]
    facts = [[row.get(name, "") for name in columns] for row in values]
    texts = [[name, *row] for name, row in zip(names, facts, strict=True)]
    header, blocks = row_blocks(["run", *columns], texts, width)
    if not header:
        header, blocks = row_blocks(columns, facts, width, "  ")
        blocks = [[name, *block] for name, block in zip(names, blocks, strict=True)]
    for view, block in zip(views, blocks, strict=True):
        if view.kind == "run" and view.note:
            block += textwrap.wrap(one_line(view.note), max(1, width), initial_indent="  ", subsequent_indent="  ")
    return header, [[part for line in block for part in wrapped(line, width)] for block in blocks]


def _columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the columns of all rows; those that only some rows have stand before "step time"."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names if name not in LAST] + [name for name in LAST if name in names]
