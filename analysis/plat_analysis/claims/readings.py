"""Two readings of what a paper says, side by side: does it matter which one is run?

A row is a contradiction, such as the paper's words against its released code. It *does not matter* where the change
from one reading to the other is shown to lie within the bounds (two one-sided tests), it *matters* where it is shown to
lie beyond one of them, with the error held over the rows (`plat_analysis.claims.equivalence`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.artifact import DASH, Cell, Column, Row, Table, Tone, interval, number, provenance, record
from plat_analysis.claims.equivalence import LARGE, OPEN, SHORT, SMALL, row_tests
from plat_analysis.claims.rows import RowEvidence, shown
from plat_analysis.contrasts.contrast import Contrast, Term, change
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

WORDS: dict[str, tuple[str, Tone]] = {
    SMALL: ("does not matter", "good"),
    LARGE: ("matters", "bad"),
    OPEN: ("undecided", ""),
    SHORT: ("not enough data", "missing"),
}
Pairs = Mapping[str, Sequence[Any]]  # contradiction -> the first reading, the second


def _beforehand(results: Results, *, conditions: str, readings: Pairs, **_: Any) -> None:
    """SpecError where a row names no two conditions, or their runs are not paired."""
    _pairs(Facets(results, Layout.of(conditions=conditions)), readings)


@checked_by(_beforehand)
def build(
    frames: Frames,
    experiment: Experiment,
    *,
    conditions: str,
    readings: Pairs,
    measure: Any = "final",
    within: float = 5.0,
    builds: Builds = "fixed",
    first: str = "paper",
    second: str = "code",
    name: str = "readings",
) -> list[Table]:
    """A line for each contradiction: both readings, the change between them, and whether it matters.

    conditions     the axis that has the readings
    readings       what is read in two ways -> [the first reading, the second], values of that axis
    measure        what is measured of a run (see `plat_analysis.quantities.metric`)
    within         a change that is smaller does not matter; in points, or in the unit of the measure
    builds         about these builds of the base model (fixed), or about such builds (random)
    first, second  what the two readings are called
    """
    facets, of = Facets(Results.of(frames, experiment), Layout.of(conditions=conditions)), quantity(measure)
    pairs, cell = _pairs(facets, readings), Estimates(facets, builds=builds).cells["", ""]
    changes = {row: cell.estimate(change(of, *pair)) for row, pair in pairs.items()}
    levels = {row: [cell.estimate(Contrast(Term(side, of))) for side in pair] for row, pair in pairs.items()}
    kinds = _kinds({row: RowEvidence(estimate, smallest=within) for row, estimate in changes.items()})
    unit = " points" if of.factor != 1 else ""
    table = Table(
        name=name,
        title=" · ".join(filter(None, [experiment.source, experiment.title])),
        columns=[Column("read in two ways", numeric=False), Column(first), Column(second), Column("Δ"),
                 Column("95 %"), Column(f"within ±{within:g}{unit}?", numeric=False)],
        rows=[],
        caption=(
            f"{of.name}{', %' if of.factor != 1 else ''}: means over the runs of a reading. Δ: {second} minus {first}, "
            f"paired by build and seed. The error of the last column is held over its rows (Holm)."
        ),
    )  # fmt: skip
    for row, pair in pairs.items():
        words, tone = WORDS[kinds[row]]
        stub = Cell(f"{row}: {pair[0]} or {pair[1]}")
        cells = [_shown(level, of) for level in levels[row]]
        changed = changes[row]
        bounds = Cell(interval(changed, of.digits, True))
        table.rows.append(Row((stub, *cells, _shown(changed, of, True), bounds, Cell(words, tone=tone))))
        labels = {"row": row, "first": pair[0], "second": pair[1], "measure": of.name}
        table.records.append({**record(changed, **labels), "found": words})
        if changed.value is not None:
            table.values[f"{name}/{row}"] = changed.value
    return [table]


BUILDER = build


def _kinds(evidence: Mapping[str, RowEvidence]) -> dict[str, str]:
    """Row -> small, large, open or short; each is tested for itself, and Holm's procedure goes over the rows."""
    inside: dict[str, float | None] = {}
    outside: dict[str, float | None] = {}
    for row, item in evidence.items():
        within, beyond = row_tests({row: item})
        inside |= within
        outside |= beyond
    kinds = {row: OPEN if item.enough else SHORT for row, item in evidence.items()}
    return kinds | dict.fromkeys(shown(inside), SMALL) | dict.fromkeys(shown(outside), LARGE)


def _pairs(facets: Facets, readings: Pairs) -> dict[str, tuple[str, str]]:
    """Row -> its two conditions. SpecError where they are not two, or the matrix lacks one, or seeds differ."""
    pairs: dict[str, tuple[str, str]] = {}
    for row, sides in readings.items():
        if isinstance(sides, str) or len(sides) != 2 or spell(sides[0]) == spell(sides[1]):
            raise SpecError(f"readings: {row!r} has no two sides", mend="write NAME: [the paper's, the code's]")
        pairs[row] = (spell(sides[0]), spell(sides[1]))
        for side in pairs[row]:
            if side not in facets.conditions:
                raise SpecError(f"readings: there is no {side!r}", mend=mend(side, facets.conditions, "conditions"))
        facets.check_pairs(*pairs[row])
    return pairs


def _shown(estimate: Estimate, of: Quantity, signed: bool = False) -> Cell:
    if estimate.value is None:
        return Cell(DASH, tone="missing", title=provenance(estimate))
    return Cell(number(estimate.value, of.digits, signed), title=provenance(estimate))
