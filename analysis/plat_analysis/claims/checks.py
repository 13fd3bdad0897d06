"""The built-in claim checks (entry-point group `plat.claims`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plat_analysis.artifact import interval, number
from plat_analysis.claims.engine import Verdict
from plat_analysis.grid import Grid, Layout
from plat_analysis.results import Results
from plat_analysis.statistics import Estimate

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.reader import Frames


def mean_delta_positive(
    frames: Frames,
    experiment: Experiment,
    *,
    rows: str | Sequence[str] | None = None,
    columns: str = "task",
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = "top_p",
    heldout: bool = False,
    only: Sequence[str] = (),
) -> Verdict:
    """The treatment helps on average over the columns, for every row (or those in `only`).

    A row is reproduced when the lower end of its 95 % interval is above zero, partial when only the mean is, and not
    reproduced when the mean is at most zero. The claim is about every row: reproduced when all rows are; not reproduced
    when no row's mean is above zero, or when some row's whole interval is below; not enough data when a row is
    incomplete; otherwise partial. `heldout`: judge the peak checkpoints on the held-out instances.
    """
    grid = Grid(Results(frames, experiment), Layout.read(experiment, rows, columns, pair, baseline, treatment))
    quantity = "heldout_delta" if heldout else "delta"
    found = {row: grid.average(row, quantity) for row in grid.rows if not only or row in only}
    statuses = {row: row_status(estimate) for row, estimate in found.items()}
    ids = tuple(dict.fromkeys(run for estimate in found.values() for run in estimate.run_ids))
    value = {row: estimate.value for row, estimate in found.items() if estimate.value is not None}
    return Verdict(_overall(statuses, found), value, _detail(statuses, found), ids)


def row_status(estimate: Estimate) -> str:
    """Verdict on one row's mean change."""
    if not estimate.complete or estimate.value is None:
        return "not_enough_data"
    if estimate.value <= 0:
        return "not_reproduced"
    return "reproduced" if estimate.sign > 0 else "partial"


def _overall(statuses: dict[str, str], found: dict[str, Estimate]) -> str:
    kinds = set(statuses.values())
    if not kinds or "not_enough_data" in kinds:
        return "not_enough_data"
    if kinds == {"reproduced"}:
        return "reproduced"
    harmed = any(estimate.sign < 0 for estimate in found.values())
    return "not_reproduced" if harmed or kinds == {"not_reproduced"} else "partial"


def _detail(statuses: dict[str, str], found: dict[str, Estimate]) -> str:
    words = {
        "reproduced": "interval above zero",
        "partial": "mean above zero, interval includes it",
        "not_reproduced": "mean not above zero",
        "not_enough_data": "incomplete",
    }
    parts = []
    for status, text in words.items():
        rows = [row for row in statuses if statuses[row] == status]
        if rows:
            told = [_told(row, found[row], status) for row in rows]
            parts.append(f"{text} in {len(rows)} of {len(statuses)}: {', '.join(told)}")
    return "; ".join(parts)


def _told(row: str, estimate: Estimate, status: str) -> str:
    if status == "not_enough_data":
        return f"{row} ({estimate.note or f'{estimate.seeds}/{estimate.wanted} seeds'})"
    return f"{row} {number(estimate.value, signed=True)} {interval(estimate, signed=True)}".rstrip()


MEAN_DELTA_POSITIVE = mean_delta_positive
