"""What a builder returns: a `Table` or a `Figure`, each with the numbers and the run ids behind everything shown.

A table is laid out once, as rows of cells, and rendered five times (terminal, Markdown, CSV, LaTeX, HTML). `records` is
the same content as tidy data, one dict per shown estimate: that is what the CSV holds. A figure is drawn on demand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from plat_analysis.statistics.intervals import Estimate
from plat_analysis.text import printable

if TYPE_CHECKING:
    import matplotlib.figure

# How a cell is set apart: `good` and `bad` are starred changes; `missing` stands for a number that is not there.
# `published` is what a paper prints.
Tone = Literal["", "strong", "dim", "good", "bad", "missing", "published"]
DASH = "—"


def _make_printable(shown: object, *names: str) -> None:
    """Replace text that could command a terminal or break a file: artifacts show what others wrote."""
    for name in names:
        object.__setattr__(shown, name, printable(getattr(shown, name)))


@dataclass(frozen=True)
class Cell:
    """One shown cell. `shorter` are ever shorter forms of `text`; `mark` points to a note; `title` is provenance."""

    text: str = ""
    shorter: tuple[str, ...] = ()
    tone: Tone = ""
    mark: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        _make_printable(self, "text", "mark", "title")
        object.__setattr__(self, "shorter", tuple(map(printable, self.shorter)))

    def form(self, level: int) -> str:
        """The text (level 0) or one of its shorter forms; the shortest where there is none so short."""
        forms = (self.text, *self.shorter)
        return forms[min(level, len(forms) - 1)]


@dataclass(frozen=True)
class Column:
    """A column; neighbours with the same non-empty `group` stand under one spanning heading. `shorter` is its title
    where space is scarce, if it has another one there."""

    title: str
    group: str = ""
    numeric: bool = True
    shorter: str = ""

    def __post_init__(self) -> None:
        _make_printable(self, "title", "group", "shorter")


@dataclass(frozen=True)
class Row:
    """A row of cells, one per column. `section` opens a named block; `rule` separates it from the row above. `detail`
    is what a table in a paper has no room for: LaTeX leaves it out."""

    cells: tuple[Cell, ...]
    rule: bool = False
    section: str = ""
    detail: bool = False

    def __post_init__(self) -> None:
        _make_printable(self, "section")


@dataclass(frozen=True)
class Note:
    """A footnote; `mark` is empty for a general one."""

    text: str
    mark: str = ""

    def __post_init__(self) -> None:
        _make_printable(self, "text", "mark")


@dataclass
class Table:
    """A table ready to be rendered. `name` is its file stem; `printed`: also shown on the terminal by `plat report`."""

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    caption: str = ""
    notes: list[Note] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)  # key numbers, logged into the store with the report
    printed: bool = True

    def __post_init__(self) -> None:
        _make_printable(self, "title", "caption")


@dataclass
class Figure:
    """A figure ready to be drawn. `points` are the plotted numbers with run ids; `titles` maps an artist's gid to its
    tooltip in the HTML page."""

    name: str
    title: str
    draw: Callable[[], matplotlib.figure.Figure]
    caption: str = ""
    points: list[dict[str, Any]] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _make_printable(self, "title", "caption")

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the plotted numbers, each to six digits: machines differ in the last bits of a mean."""
        encode, digest = json.JSONEncoder(sort_keys=True, default=str).encode, sha256(b"[")
        for number, point in enumerate(self.points):  # one by one: together they are gigabytes for millions of points
            line = encode({name: _six_digits(value) for name, value in point.items()})
            digest.update((", " + line if number else line).encode())
        digest.update(b"]")
        return digest.hexdigest()


def _six_digits(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def number(value: float | None, digits: int = 1, signed: bool = False) -> str:
    """`12.9`, `+16.0`, `−0.4`; a dash when missing; never a negative zero."""
    if value is None:
        return DASH
    rounded = round(value, digits) + 0.0
    if signed and rounded == 0:
        return f"{0:.{digits}f}"
    return f"{rounded:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    """`.0004`, `.031`, `.25`: a p-value with two digits that count."""
    if p is None:
        return "unknown"
    if p < 0.0001:
        return "below .0001"
    digits = 4 if p < 0.001 else 3 if p < 0.1 else 2
    return f"{p:.{digits}f}".removeprefix("0")


def interval(estimate: Estimate, digits: int = 1, signed: bool = False) -> str:
    """`[9.4, 17.5]`, or nothing when there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{number(estimate.low, digits, signed)}, {number(estimate.high, digits, signed)}]"


def short_interval(estimate: Estimate, signed: bool = False, digits: int = 0) -> str:
    """`9…18`: the interval for narrow columns; ends near zero keep a decimal, so that their side of zero is seen."""
    if estimate.low is None or estimate.high is None:
        return ""
    ends = (number(end, max(digits, int(abs(end) < 1 and end != 0)), signed) for end in (estimate.low, estimate.high))
    return "…".join(ends)


def tone_of(estimate: Estimate) -> Tone:
    """The tone of a change: missing without a number, good or bad where it is starred."""
    if estimate.value is None:
        return "missing"
    return "good" if estimate.star > 0 else "bad" if estimate.star < 0 else ""


def provenance(estimate: Estimate) -> str:
    """One line for a tooltip: interval, seeds, runs, remark."""
    parts = []
    if estimate.low is not None:
        parts.append(f"95 % interval over {estimate.over} {interval(estimate, 2)}")
    if estimate.wanted:
        parts.append(f"{estimate.seeds}/{estimate.wanted} seeds")
    if estimate.note:
        parts.append(estimate.note)
    if estimate.run_ids:
        parts.append("runs " + " ".join(estimate.run_ids))
    return " · ".join(parts)


def record(estimate: Estimate, **labels: Any) -> dict[str, Any]:
    """One tidy line: the labels, then the estimate."""
    return {
        **labels,
        "value": estimate.value,
        "low": estimate.low,
        "high": estimate.high,
        "interval_over": estimate.over,
        "interval_about": estimate.about if estimate.over else "",
        "standard_error": estimate.error,
        "units": estimate.units or None,
        "star": estimate.star,
        "seeds": estimate.seeds,
        "seeds_wanted": estimate.wanted,
        "run_ids": " ".join(estimate.run_ids),
        "note": estimate.note,
    }
