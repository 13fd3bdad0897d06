"""What a builder returns: a `Table` or a `Figure`, with the numbers and run ids of everything shown.

A table is laid out once, as rows of cells, and rendered for terminal, Markdown, CSV, LaTeX and HTML. `records` is the
same content as tidy data, one dict per estimate, for the CSV. A figure is drawn on demand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from plat_analysis.shown_text import printable
from plat_analysis.statistics.intervals import Estimate

if TYPE_CHECKING:
    import matplotlib.figure

# Style of a cell: `good`, `bad` and `starred` (neither) are starred changes, `missing` is an absent number, `published`
# a paper's number.
Tone = Literal["", "strong", "dim", "good", "bad", "starred", "missing", "published"]
DASH = "—"
LETTERS = "abcdefghijklmnoprstuvwxyz"  # of marks; no q: Unicode has no superscript for it


class _Printable:
    """Replace text in the named fields that could command a terminal or break a file: it comes from files of others."""

    _shown: tuple[str, ...]

    def __init_subclass__(cls, shown: tuple[str, ...]) -> None:
        cls._shown = shown

    def __post_init__(self) -> None:
        for name in self._shown:
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True)
class Cell(_Printable, shown=("text", "mark", "title")):
    """Hold one shown cell.

    shorter  ever shorter forms of `text`, for narrow terminals
    mark     points to a note
    title    provenance, shown as a tooltip
    """

    text: str = ""
    shorter: tuple[str, ...] = ()
    tone: Tone = ""
    mark: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "shorter", tuple(map(printable, self.shorter)))

    def form(self, level: int) -> str:
        """Return the text (level 0) or one of its shorter forms; the shortest where there are fewer."""
        forms = (self.text, *self.shorter)
        return forms[min(level, len(forms) - 1)]


@dataclass(frozen=True)
class Column(_Printable, shown=("title", "group", "shorter")):
    """Hold a column; neighbours with the same non-empty `group` share a heading. `shorter`: a short title."""

    title: str
    group: str = ""
    numeric: bool = True
    shorter: str = ""


@dataclass(frozen=True)
class Row(_Printable, shown=("section",)):
    """Hold a row of cells, one per column.

    rule     separate it from the row above
    section  opens a block of that name
    detail   LaTeX leaves the row out
    """

    cells: tuple[Cell, ...]
    rule: bool = False
    section: str = ""
    detail: bool = False


@dataclass(frozen=True)
class Note(_Printable, shown=("text", "mark")):
    """Hold a footnote; `mark` is empty for a general one."""

    text: str
    mark: str = ""


class Marks:
    """Give each footnote a mark, in the order of first use: a, b, ..., z, aa, bb, ...; equal texts share one."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Return the mark of a footnote with this text; "" for an empty text."""
        if not text:
            return ""
        turn, letter = divmod(len(self._marks), len(LETTERS))
        return self._marks.setdefault(text, LETTERS[letter] * (turn + 1))

    def notes(self) -> list[Note]:
        """Return the footnotes, in the order of their marks."""
        return [Note(text, mark) for text, mark in self._marks.items()]


@dataclass
class Table(_Printable, shown=("title", "caption", "fine_print")):
    """Hold a table ready to be rendered.

    name        its file stem
    printed     `plat report` shows it on the terminal
    folded      the page shows it only when a reader asks for more metrics
    fine_print  how intervals and stars are made: once on a page, and not on the terminal
    """

    name: str
    title: str
    columns: list[Column]
    rows: list[Row]
    caption: str = ""
    notes: list[Note] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)  # key numbers, logged into the store with the report
    printed: bool = True
    folded: bool = False
    fine_print: str = ""

    @property
    def tidy(self) -> list[dict[str, Any]]:
        """Return the lines of the CSV file: `records`, or without any the shown rows by the columns' titles."""
        if self.records:
            return self.records
        titles = [" ".join(filter(None, [column.group, column.title])) for column in self.columns]
        return [dict(zip(titles, (cell.text for cell in row.cells), strict=True)) for row in self.rows]

    @property
    def whole_caption(self) -> str:
        """Return the caption and the fine print, for a file that stands alone."""
        return " ".join(filter(None, [self.caption, self.fine_print]))


@dataclass
class Figure(_Printable, shown=("title", "caption", "fine_print")):
    """Hold a figure ready to be drawn; `folded` and `fine_print` are as in `Table`.

    points     the plotted numbers with run ids
    estimates  what is estimated, a dict each: labels, then `value`, `low` and `high` (as in `record`); a `step` among
               the labels is a training step. Default: the points that have these keys
    titles     gid of an artist -> its tooltip in the HTML page
    """

    name: str
    title: str
    draw: Callable[[], matplotlib.figure.Figure]
    caption: str = ""
    points: list[dict[str, Any]] = field(default_factory=list)
    estimates: list[dict[str, Any]] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    folded: bool = False
    fine_print: str = ""

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the plotted numbers to six digits: machines differ in a mean's last bits."""
        encode, digest = json.JSONEncoder(sort_keys=True, default=str).encode, sha256(b"[")
        for number, point in enumerate(self.points):  # one by one: millions of points would take gigabytes
            line = encode({name: _six_digits(value) for name, value in point.items()})
            digest.update((", " + line if number else line).encode())
        digest.update(b"]")
        return digest.hexdigest()


def _six_digits(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def number(value: float | None, digits: int = 1, signed: bool = False) -> str:
    """Return `12.9`, `+16.0` (if `signed`), `−0.4` (with a minus sign, not a hyphen); `DASH` for None; never `−0.0`."""
    if value is None:
        return DASH
    rounded = round(value, digits) + 0.0
    if signed and rounded == 0:
        return f"{0:.{digits}f}"
    return f"{rounded:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    """Return a p-value rounded to 2 to 4 decimals: `.0004`, `.031`, `.25`.

    Return "below .0001" for a smaller one, and "unknown" for None.
    """
    if p is None:
        return "unknown"
    if p < 0.0001:
        return "below .0001"
    digits = 4 if p < 0.001 else 3 if p < 0.1 else 2
    return f"{p:.{digits}f}".removeprefix("0")


def interval(estimate: Estimate, digits: int = 1, signed: bool = False) -> str:
    """Return `[9.4, 17.5]`, or "" when there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{number(estimate.low, digits, signed)}, {number(estimate.high, digits, signed)}]"


def short_interval(estimate: Estimate, signed: bool = False, digits: int = 0) -> str:
    """Return `9…18` for narrow columns, or "" when there is no interval.

    An end between -1 and 1, except 0, has at least one decimal, so that its sign is seen.
    """
    if estimate.low is None or estimate.high is None:
        return ""
    ends = (number(end, max(digits, int(abs(end) < 1 and end != 0)), signed) for end in (estimate.low, estimate.high))
    return "…".join(ends)


def provenance(estimate: Estimate) -> str:
    """Return one line for a tooltip: interval, seeds, remark, runs."""
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


def estimate_cell(estimate: Estimate, digits: int = 1, signed: bool = False, tone: Tone = "", mark: str = "") -> Cell:
    """Return a number with its provenance as a tooltip; a dash of tone `missing` where there is no number.

    A change (`signed`) is toned good or bad if it is starred, else not at all; `tone` is for other numbers.
    """
    if estimate.value is None:
        tone = "missing"
    elif signed:
        tone = "good" if estimate.star > 0 else "bad" if estimate.star < 0 else ""
    return Cell(number(estimate.value, digits, signed), tone=tone, mark=mark, title=provenance(estimate))


def record(estimate: Estimate, **labels: Any) -> dict[str, Any]:
    """Return one row of a tidy table: the labels, then the fields of the estimate.

    The estimate gives value, low, high, interval_over, interval_about, standard_error, units, star, seeds,
    seeds_wanted, run_ids (joined by spaces) and note.
    """
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
