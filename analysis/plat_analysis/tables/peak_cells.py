"""Make the cells of Table 4: a success rate, a change, an interval, and the number of seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from plat.words.outcomes import failure_class
from plat_analysis.artifact import Cell, Tone, estimate_cell, interval, provenance, short_interval
from plat_analysis.quantities.success import Fall
from plat_analysis.statistics.intervals import Estimate

SHORT_REASONS = {"unfinished": "partial", "incomplete": "partial"}


def value_cell(estimate: Estimate, tone: Tone = "", fallen: Sequence[Fall] = (), signed: bool = False) -> Cell:
    """Return a success rate in percent; a dash where it is missing, an arrow where a run fell after its peak."""
    cell = estimate_cell(estimate, 1, signed, tone)
    if estimate.value is None or not fallen:
        return cell
    return replace(cell, text="↓" + cell.text, tone="missing", title="; ".join([*map(str, fallen), cell.title]))


def change_cell(estimate: Estimate, fallen: Sequence[Fall] = ()) -> Cell:
    """Return a change in points as `value_cell` does, toned good or bad where it is starred."""
    return value_cell(estimate, "", fallen, signed=True)


def bounds_cell(estimate: Estimate, signed: bool = False) -> Cell:
    """Return the 95 % interval, empty if there is none; without a value, the reason in one or two words."""
    if estimate.value is None:
        brief = _brief(estimate.note)
        return Cell(
            brief,
            (brief, SHORT_REASONS.get(brief, failure_class(brief) or brief)),
            "missing",
            title=provenance(estimate),
        )
    shorter = (short_interval(estimate, signed, 1), short_interval(estimate, signed, 0))
    return Cell(interval(estimate, 1, signed), shorter, "dim", title=provenance(estimate))


def _brief(note: str) -> str:
    """Return the reason in one or two words, such as `failed:oom` or `not run`."""
    if " columns; " in note:
        return note.split(" columns;")[0]
    reasons = list(dict.fromkeys(part.split(": ", 1)[-1].strip() for part in note.replace(",", ";").split(";")))
    reasons = [reason for reason in reasons if reason]
    return reasons[0] if len(reasons) == 1 else "incomplete"


def seeds_cell(estimate: Estimate) -> Cell:
    """Return how many of the wanted seeds an estimate has: `4/5`."""
    tone: Tone = "dim" if estimate.complete else "missing"
    return Cell(f"{estimate.seeds}/{estimate.wanted}", tone=tone, title=provenance(estimate))
