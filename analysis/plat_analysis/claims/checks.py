"""The built-in claim checks (entry-point group `plat.claims`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from plat.errors import SpecError
from plat.suggest import suggest
from plat.units import counted
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import (
    LEVEL,
    OPEN,
    SHORT,
    RowEvidence,
    RowTests,
    about,
    about_rows,
    controlled,
    decide_rows,
    judged,
    outcome,
    remarked,
    row_kinds,
    whole_sample,
)
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions, ChosenRows, UnitOptions, chosen_rows, of_tests, with_evidence
from plat_analysis.claims.planned import PlannedRow, judge_by_looks
from plat_analysis.claims.record import tested_rows
from plat_analysis.claims.row_words import dependence, row_line, skew
from plat_analysis.contrasts.cell import Cell, Contrast, Estimates, Term, average, common_means, merged_asks
from plat_analysis.contrasts.cell import change as change_of
from plat_analysis.data.published import printed_table
from plat_analysis.data.results import Results
from plat_analysis.facets import Facets, Layout
from plat_analysis.quantities.metric import At, quantity
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Builds, over_replicates
from plat_analysis.statistics.significance import shared_spread, shown_above, shown_below


@takes(UnitOptions, by_looks=True)
def mean_delta_positive(
    results: Results, change: UnitOptions, *, only: Sequence[str] = (), paper: str | None = None
) -> Verdict:
    """The treatment helps in every row, or in those in `only`.

    A row is judged by its mean over the columns; with `by_column`, each of its columns is judged alone.
    `plat_analysis.claims.decided` says how rows are judged together.

    only       the rows that are judged (default: all)
    paper      key of the printed table with the published sizes of the peak (default: the one that `source` names, if
               any). A row whose published size is missing or not above zero takes `smallest`. Only `peak` has
               published sizes; with another `measure` all rows take `smallest`
    """
    grid = change.grid(results)
    printed, as_shown = printed_table(results.experiment, paper), change.shown(results)
    evidence = {
        name: RowEvidence(
            change.estimate(cells),
            printed.change(row, [cell.column for cell in cells]) if change.measure == "peak" else None,
            change.smallest,
            **as_shown,
        )
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    if results.experiment.decide is not None:
        return change.spoken(judged_rows(results, evidence, change.builds))
    verdict = remarked(decide_rows(evidence, change.looks), change.remarks(grid, chosen_rows(grid.rows, only)))
    return change.spoken(with_evidence(verdict, evidence))


@takes(by_looks=True)
def increasing(
    results: Results,
    *,
    rows: str | Sequence[str],
    metric: str,
    columns: str = "task",
    at: At = "end",
    percent: bool = True,
    smallest: float = 5.0,
    builds: Builds = "random",
) -> Verdict:
    """A metric grows from each row to the next, in the order of the matrix, in every column.

    The change from one row to the next in one column is a step. It is measured between runs of equal build and seed.
    All steps are judged together as `plat_analysis.claims.decided` judges rows.

    at        judge the last measurement of the runs (end), or that of their base models before training (start)
    percent   the metric is a share, and sizes are in points
    smallest  the smallest effect of interest
    builds    the verdict is about these builds of the base model (fixed), or about such builds (random)
    """
    facets = Facets(results, Layout.of(columns=columns, conditions=rows))
    if len(facets.conditions) < 2:
        return Verdict("not_enough_data", detail=f"there is one row only, {facets.conditions[0]}")
    for row, following in pairwise(facets.conditions):
        facets.check_different(row, following)
    measured = quantity({"metric": metric, "at": at, "percent": percent}, results=results)
    unit = " points" if percent else ""
    estimates = Estimates(facets, builds=builds)
    evidence = {
        f"{column}, {row} to {following}": RowEvidence(
            estimates.estimate("", column, change_of(measured, row, following)), None, smallest, measured.digits, unit
        )
        for column in facets.columns
        for row, following in pairwise(facets.conditions)
    }
    return judged_rows(results, evidence, builds)


def judged_rows(results: Results, evidence: Mapping[str, RowEvidence], builds: Builds, looks: int = 1) -> Verdict:
    """Return the verdict that changes are above zero: at the looks of `decide`, or once (error divided by `looks`)."""
    if results.experiment.decide is not None:
        return judge_by_looks(results, {row: PlannedRow.of(item) for row, item in evidence.items()}, builds)
    return with_evidence(decide_rows(evidence, looks), evidence)


# Check that the treatment changes less than an effect of interest, by two one-sided tests (TOST).
#
# A row is *small* when each side shows, one-sided at 2.5 %, that its change lies within ±`smallest`; it is *large*
# when Holm's procedure over the rows shows that it lies outside. The tests are those of `claims.decided`, and the
# rows are judged together as in `claims.decided`: a small row is shown, a large one is the opposite.

SMALL, LARGE = "small", "large"


@takes(UnitOptions, by_looks=True)
def mean_delta_small(results: Results, change: UnitOptions, *, only: Sequence[str] = ()) -> Verdict:
    """The treatment changes less than an effect of interest, on average over the columns or in each, in every row.

    Every change is claimed to be smaller than `smallest`, up or down.

    only       the rows that are judged (default: all)
    """
    grid = change.grid(results)
    as_shown = change.shown(results)
    evidence = {
        name: RowEvidence(change.estimate(cells), smallest=change.smallest, **as_shown)
        for row in chosen_rows(grid.rows, only)
        for name, cells in change.parts(grid, row).items()
    }
    if results.experiment.decide is not None:
        within = ((1, -change.smallest), (-1, change.smallest))
        rows = {row: replace(PlannedRow.of(item), smallest=0.0, sides=within) for row, item in evidence.items()}
        return change.spoken(judge_by_looks(results, rows, change.builds))
    verdict = remarked(decide_small(evidence, change.looks), change.remarks(grid, chosen_rows(grid.rows, only)))
    return change.spoken(with_evidence(verdict, evidence))


def decide_small(evidence: Mapping[str, RowEvidence], looks: int = 1) -> Verdict:
    """Return the verdict on all rows, without numbers and runs. The error is divided by `looks`, the planned looks."""
    tests = row_tests(evidence)
    kinds = row_kinds(evidence, tests, LEVEL / looks)
    status, decided, p = outcome(kinds, tests)
    words = {
        SMALL: "within ±{0:g}{1}",
        LARGE: "beyond ±{0:g}{1}",
        OPEN: "within or beyond ±{0:g}{1}",
        SHORT: "without enough data",
    }
    said = {row: words[kind].format(evidence[row].smallest, evidence[row].unit) for row, kind in kinds.items()}
    lines = {
        row: f"{said[row]}: {row_line(row, item)}{skew(whole_sample(item.estimate), item.digits)}"
        for row, item in evidence.items()
    }
    rows = [row for row in kinds if kinds[row] == decided]
    by = lines[rows[0]] if len(rows) == 1 else f"{said[rows[0]]} in {len(rows)} of {len(kinds)}" if rows else ""
    remarks = about_rows({row: item.estimate for row, item in evidence.items()})
    held = (sum(kind == decided for kind in kinds.values()), len(kinds))
    verdict = Verdict(status, p=p, deciding=by, held=held, rows=tested_rows(kinds, tests))
    return controlled(remarked(verdict, [*lines.values(), *remarks]), looks)


def row_tests(evidence: Mapping[str, RowEvidence]) -> dict[str, dict[str, float]]:
    """Return SMALL and LARGE -> row -> p-value, of the judged rows. The bounds are -`smallest` and `smallest`.

    A small p under SMALL shows that the change lies within both bounds, one under LARGE that it lies beyond one.
    """
    guarded = shared_spread(judged(evidence))
    bounds = {row: (estimate, evidence[row].smallest) for row, estimate in guarded.items()}
    return {
        SMALL: {row: max(shown_below(e, bound), shown_above(e, -bound)) for row, (e, bound) in bounds.items()},
        LARGE: {row: min(shown_above(e, bound), shown_below(e, -bound)) for row, (e, bound) in bounds.items()},
    }


# Check that the treatment helps more in one row than in another: the difference of two changes, seed by seed.


@takes(ChangeOptions, by_looks=True)
def delta_larger(results: Results, change: ChangeOptions, *, row: str, than: str) -> Verdict:
    """The treatment helps more in one row than in another, on average over the columns or in each of them.

    row, than  the two rows: the change in `row` is claimed to be larger than that in `than`

    Raises SpecError if one is no row, or if they have different columns.
    """
    grid = change.grid(results)
    for name in (row, than):
        if name not in grid.rows:
            raise SpecError(f"there is no row {name!r}", fix=suggest(name, grid.rows, "rows"))
    if [cell.column for cell in grid.row(row)] != [cell.column for cell in grid.row(than)]:
        raise SpecError("the two rows have different columns", fix="compare rows with runs in the same columns")
    sides = change.parts(grid, row), change.parts(grid, than)
    evidence = {
        f"{name} over {than}": RowEvidence(
            difference(first, second, change.contrast), smallest=change.smallest, **change.shown(results)
        )
        for (name, first), second in zip(sides[0].items(), sides[1].values(), strict=True)
    }
    verdict = judged_rows(results, evidence, change.builds, change.looks)
    return change.spoken(verdict, {f"{row} over {than}": change.between(row, than)})


def difference(first: Sequence[Cell], second: Sequence[Cell], contrast: Contrast) -> Estimate:
    """Return the mean contrast of `first` minus `second` (same columns), paired; without a value if one has none."""
    parts = [average(cells, contrast) for cells in (first, second)]
    notes = dict.fromkeys(part.note for part in parts if part.note)
    facts: dict[str, Any] = {
        "wanted": max(part.wanted for part in parts),
        "run_ids": tuple(dict.fromkeys(run for part in parts for run in part.run_ids)),
        "note": "; ".join(notes),
        "asks": merged_asks(parts),
    }
    if any(part.value is None for part in parts):
        return Estimate(**facts)
    columns = [
        {key: mine[key] - theirs[key] for key in mine if key in theirs}
        for mine, theirs in (
            (cell.by_replicate(contrast), other.by_replicate(contrast))
            for cell, other in zip(first, second, strict=True)
        )
    ]
    values = common_means(columns)
    rounding = float(np.sqrt(sum(cell.rounding(contrast) ** 2 for cell in [*first, *second]))) / len(columns)
    return over_replicates(values, rounding, contrast.seedless, first[0].builds, **facts)


# Check that a measure itself, not its change, is above or below a bound in every row: Student's t and sign flips.
#
# A row is judged as a change is (`claims.decided`), by its distance from the bound. For example,
# `{metric: filter/kept_share, slope: true}` below 0 says that a kept share falls. The verdict is *contradicted* only
# where a row is shown to lie on the other side of the bound.

Side = Literal["above", "below"]


@takes(ChosenRows, by_looks=True)
def level(
    results: Results,
    asked: ChosenRows,
    *,
    measure: Any,
    side: Side = "above",
    bound: float = 0.0,
    builds: Builds = "fixed",
) -> Verdict:
    """A measure is above (or below) a bound in every row, or in those in `only`.

    measure  the measure of a run (see `plat_analysis.quantities.metric`)
    side     above or below
    bound    in the unit in which the measure is shown: percent for success
    builds   the verdict is about these builds of the base model (fixed), or about such builds (random)
    """
    facets, measured = asked.facets(results), quantity(measure, results=results)
    cells = Estimates(facets, builds=builds).cells
    estimates = {row or measured.name: cells[row, ""].estimate(Contrast(Term("", measured))) for row in facets.rows}
    if results.experiment.decide is not None:
        claimed = ((1 if side == "above" else -1, bound),)
        unit = " points" if measured.factor != 1 else ""
        rows = {row: PlannedRow(e, 0.0, claimed, measured.digits, unit, signed=False) for row, e in estimates.items()}
        return judge_by_looks(results, rows, builds)
    guarded = shared_spread({row: estimate for row, estimate in estimates.items() if estimate.judged})
    unit = "percent" if measured.factor != 1 else ""
    tested = {
        row: replace(_tested(row, estimate, guarded.get(row), side, bound, measured.digits), unit=unit)
        for row, estimate in estimates.items()
    }
    ids = (run for estimate in estimates.values() for run in estimate.run_ids)
    return of_tests(tested, asked.looks, ids, about(estimates.values()), dependence(estimates, "values"))


def _tested(row: str, estimate: Estimate, guarded: Estimate | None, side: Side, bound: float, digits: int) -> RowTests:
    """Test one row on the given side of the bound, and on the other."""
    if guarded is None:
        is_whole = not estimate.note and estimate.seeds == estimate.wanted
        reason = estimate.note or f"{estimate.seeds}/{estimate.wanted} seeds"
        reason = counted(estimate.seeds, "seed") if is_whole else reason
        value = f" {number(estimate.value, digits)}" if is_whole and estimate.value is not None else ""
        return RowTests(None, None, f"{row}{value} ({reason})", estimate)
    above, below = shown_above(guarded, bound), shown_below(guarded, bound)
    p, opposite = (above, below) if side == "above" else (below, above)
    shown = f"{row} {number(estimate.value, digits)} {interval(estimate, digits)}".strip()
    return RowTests(p, opposite, f"{shown} against {bound:g}, p {p_value(p)}", estimate)
