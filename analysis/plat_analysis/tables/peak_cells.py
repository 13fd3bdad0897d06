"""The cells of Table 4: a success rate, a change, an interval, and how many seeds are behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plat_analysis.artifact import DASH, Cell, Tone, interval, number, provenance, short_interval, tone_of
from plat_analysis.quantities.success import Fall
from plat_analysis.statistics.intervals import Estimate

SHORT_REASONS = {"unfinished": "partial", "incomplete": "partial"}


def value_cell(estimate: Estimate, tone: Tone = "", fallen: Sequence[Fall] = ()) -> Cell:
    """A success rate in percent; a dash where it is missing, an arrow where runs behind it fell after their peak."""
    if estimate.value is None:
        return Cell(DASH, tone="missing", title=provenance(estimate))
    return _marked(Cell(number(estimate.value), tone=tone, title=provenance(estimate)), fallen)


def change_cell(estimate: Estimate, fallen: Sequence[Fall] = ()) -> Cell:
    """A change in points, toned good or bad where it is starred; a dash where it is missing."""
    if estimate.value is None:
        return Cell(DASH, tone="missing", title=provenance(estimate))
    return _marked(
        Cell(number(estimate.value, signed=True), tone=tone_of(estimate), title=provenance(estimate)), fallen
    )


def _marked(cell: Cell, fallen: Sequence[Fall]) -> Cell:
    """The cell with an arrow where runs behind it fell after their peak."""
    if not fallen:
        return cell
    text = "↓" + cell.text
    return replace(cell, text=text, tone="missing", title="; ".join([*map(str, fallen), cell.title]))


def bounds_cell(estimate: Estimate, signed: bool = False) -> Cell:
    """The 95 % interval, or the reason why there is no number."""
    if estimate.value is None:
        brief = _brief(estimate.note)
        return Cell(
            brief,
            (brief, SHORT_REASONS.get(brief, brief.removeprefix("failed:"))),
            "missing",
            title=provenance(estimate),
        )
    shorter = (short_interval(estimate, signed, 1), short_interval(estimate, signed, 0))
    return Cell(interval(estimate, 1, signed), shorter, "dim", title=provenance(estimate))


def _brief(note: str) -> str:
    """The reason in one or two words, such as `failed:oom` or `not run`. The title and the notes give all of it."""
    if " columns; " in note:
        return note.split(" columns;")[0]
    reasons = list(dict.fromkeys(part.split(": ", 1)[-1].strip() for part in note.replace(",", ";").split(";")))
    reasons = [reason for reason in reasons if reason]
    return reasons[0] if len(reasons) == 1 else "incomplete"


def seeds_cell(estimate: Estimate) -> Cell:
    """How many of the wanted seeds are behind an estimate: `4/5`."""
    tone: Tone = "dim" if estimate.complete else "missing"
    return Cell(f"{estimate.seeds}/{estimate.wanted}", tone=tone, title=provenance(estimate))
