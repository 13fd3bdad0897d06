"""Compare two readings of a paper, such as its words and its released code: does the choice matter?

A row *does not matter* where the change between its readings is shown to lie within the bounds (TOST), and *matters*
where it is shown to lie beyond one of them, with the error held over the rows (`claims.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.artifact import Cell, Column, Row, Table, Tone, estimate_cell, interval, record
from plat_analysis.builder_options import takes
from plat_analysis.claims.checks import LARGE, SMALL, row_tests
from plat_analysis.claims.decided import OPEN, SHORT, RowEvidence, shown
from plat_analysis.contrasts.cell import Contrast, Estimates, Term, change
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import Facets, Layout
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.replicates import Builds

WORDS: dict[str, tuple[str, Tone]] = {
    SMALL: ("does not matter", "good"),
    LARGE: ("matters", "bad"),
    OPEN: ("open", ""),
    SHORT: ("not enough data", "missing"),
}
Pairs = Mapping[str, Sequence[Any]]  # contradiction -> the first reading, the second


def _beforehand(results: Results, *, conditions: str, readings: Pairs, **_: Any) -> None:
    """Raise SpecError where a row does not name two conditions, or their runs are not paired."""
    _pairs(Facets(results, Layout.of(conditions=conditions)), readings)


@takes(before=_beforehand)
def build(
    results: Results,
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
    readings       the contradiction -> [the first reading, the second], values of that axis
    measure        the measure of a run (see `plat_analysis.quantities.metric`)
    within         a change that is smaller does not matter; in points, or in the unit of the measure
    builds         about these builds of the base model (fixed), or about such builds (random)
    first, second  names of the two readings
    """
    facets, of = Facets(results, Layout.of(conditions=conditions)), quantity(measure, results=results)
    pairs, cell = _pairs(facets, readings), Estimates(facets, builds=builds).cells["", ""]
    changes = {row: cell.estimate(change(of, *pair)) for row, pair in pairs.items()}
    levels = {row: [cell.estimate(Contrast(Term(side, of))) for side in pair] for row, pair in pairs.items()}
    kinds = _kinds({row: RowEvidence(estimate, smallest=within) for row, estimate in changes.items()})
    unit = " points" if of.factor != 1 else ""
    table = Table(
        name=name,
        title=results.heading,
        columns=[Column("read in two ways", numeric=False), Column(first), Column(second), Column("Δ"),
                 Column("95 %"), Column(f"within ±{within:g}{unit}?", numeric=False)],
        rows=[],
        caption=(
            f"{of.name}{', %' if of.factor != 1 else ''}: means over the runs of a reading. Δ: {second} minus {first}, "
            f"paired by build and seed. The last column controls the error over its rows (Holm)."
        ),
    )  # fmt: skip
    for row, pair in pairs.items():
        words, tone = WORDS[kinds[row]]
        stub = Cell(f"{row}: {pair[0]} or {pair[1]}")
        cells = [estimate_cell(level, of.digits) for level in levels[row]]
        changed = changes[row]
        bounds = Cell(interval(changed, of.digits, True))
        table.rows.append(Row((stub, *cells, estimate_cell(changed, of.digits, True), bounds, Cell(words, tone=tone))))
        labels = {"row": row, "first": pair[0], "second": pair[1], "measure": of.name}
        table.records.append({**record(changed, **labels), "found": words})
        if changed.value is not None:
            table.values[f"{name}/{row}"] = changed.value
    return [table]


def _kinds(evidence: Mapping[str, RowEvidence]) -> dict[str, str]:
    """Return row -> small, large, open or short; each row is tested alone, with Holm's procedure over the rows."""
    each = [row_tests({row: item}) for row, item in evidence.items()]
    inside, outside = ({row: p for tests in each for row, p in tests[kind].items()} for kind in (SMALL, LARGE))
    kinds = dict.fromkeys(evidence, SHORT) | dict.fromkeys(inside, OPEN)
    return kinds | dict.fromkeys(shown(inside), SMALL) | dict.fromkeys(shown(outside), LARGE)


def _pairs(facets: Facets, readings: Pairs) -> dict[str, tuple[str, str]]:
    """Return row -> its two conditions. SpecError where they are not two, the matrix lacks one, or seeds differ."""
    pairs: dict[str, tuple[str, str]] = {}
    for row, sides in readings.items():
        if isinstance(sides, str) or len(sides) != 2 or spell(sides[0]) == spell(sides[1]):
            raise SpecError(f"readings: {row!r} needs two readings", fix="write NAME: [the paper's, the code's]")
        pairs[row] = (spell(sides[0]), spell(sides[1]))
        for side in pairs[row]:
            if side not in facets.conditions:
                raise SpecError(f"readings: there is no {side!r}", fix=suggest(side, facets.conditions, "conditions"))
        facets.check_pairs(*pairs[row])
    return pairs
