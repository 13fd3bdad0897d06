"""Show the reference of a peak table: its lines, the mark of a cell outside its range, and notes on both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plat_analysis.artifact import DASH, Cell, Note, interval, number, short_interval
from plat_analysis.reference.reference_cells import Expected, ReferenceCells, more_than_chance
from plat_analysis.reference.reference_runs import reference_of, reference_problem
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import MIN_BUILDS, MIN_RUNS

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat_analysis.contrasts.comparison import Compared

OUTSIDE = "x"  # marks a range that does not hold the value
TOO_FEW = "too few"
WHY_TOO_FEW = (
    f"“{TOO_FEW} (4 of {MIN_RUNS})”: a range requires {MIN_RUNS} runs besides the table's own, and one more for each "
    f"further build of the base model. If none of the builds is the table's own, it also requires {MIN_BUILDS} builds."
)
NAMES = {"peak": "peaks", "delta": "changes"}


class ReferenceLines:
    """Hold the reference of one table. Without runs to compare, all but `notes` is empty.

    Raises BundleError if the bundle is damaged.
    """

    def __init__(self, grid: Compared, experiment: Experiment) -> None:
        self.grid, self.experiment = grid, experiment
        reference = reference_of(experiment)
        cells = ReferenceCells(grid, reference) if reference else None
        self.only_own = cells is not None and cells.empty
        self.cells = None if cells is None or cells.empty else cells

    def lines(self, row: str) -> list[tuple[str, list[Cell]]]:
        """Return the lines (kind, cells) `reference` and `range` of a row; each column has a peak and a change."""
        if self.cells is None:
            return []
        shown = [
            self.cells.expected(row, column, quantity)
            for column in self.grid.averaged
            for quantity in ("peak", "delta")
        ]
        signs = [False, True] * len(self.grid.averaged)
        return [
            ("reference", [mean_cell(expected, signed) for expected, signed in zip(shown, signs, strict=True)]),
            ("range", [range_cell(expected, signed) for expected, signed in zip(shown, signs, strict=True)]),
        ]

    def caption(self) -> str:
        """Return the sentence that explains the two lines; "" without them."""
        return "" if self.cells is None else reference_caption(self.experiment)

    def notes(self) -> list[Note]:
        """Return the result of the comparison, and why some cells could not be compared."""
        texts = reference_notes(self.experiment, self.only_own)
        if self.cells is None:
            return texts
        if self.cells.without_range():
            texts.append(Note(WHY_TOO_FEW))
        counts = [count for count in self.cells.counts() if count.cells]
        if counts:
            parts = [
                f"{count.outside} of {count.cells} {NAMES[count.quantity]} (expected by chance: {count.expected:.1f}; "
                f"probability of at least as many: {count.probability:.2g})"
                for count in counts
            ]
            verdict = "chance does not explain this" if more_than_chance(counts) else "chance can explain this"
            texts.append(Note(f"outside the reference range: {', '.join(parts)}: {verdict}.", OUTSIDE))
        return texts

    def record(self, row: str, column: str, quantity: str) -> dict[str, Any]:
        """Return the columns that the reference adds to a tidy line; {} without one."""
        if self.cells is None:
            return {}
        expected = self.cells.expected(row, column, quantity)
        return {
            "reference": expected.mean,
            "reference_low": expected.low,
            "reference_high": expected.high,
            "reference_runs": expected.runs,
        }

    def values(self) -> dict[str, float]:
        """Return key numbers, e.g. `reference/peaks` (cells with a range) and `reference/same_run_difference`.

        The counts of peaks and changes have `_outside`, `_expected` (by chance) and `_probability` (of as many or more
        outside by chance), too. The others are those of `SameRuns.values`.
        """
        values: dict[str, float] = {}
        for count in self.cells.counts() if self.cells else []:
            name = f"reference/{NAMES[count.quantity]}"
            values |= {name: float(count.cells), f"{name}_outside": float(count.outside)}
            values |= {f"{name}_expected": count.expected, f"{name}_probability": count.probability}
        travelled = self.cells.same_runs().values() if self.cells else {}
        return values | {f"reference/{name}": value for name, value in travelled.items()}


def reference_caption(experiment: Experiment) -> str:
    """Return the sentence that explains the lines “reference” and “range” of a table."""
    return (
        f" “reference” is the mean of the runs in {experiment.reference} that differ from the table's runs only in "
        "seed or base build. The table's own runs are left out. If there are runs of the table's own builds, only "
        "these builds count. “range” is the 95 % prediction interval for this table's value (Student's t). Its centre "
        "is the mean of the same build."
    )


def reference_notes(experiment: Experiment, nothing_but_own: bool) -> list[Note]:
    """Return a note on why runs are not compared with the reference; [] if they are. May raise BundleError.

    nothing_but_own  True if the only runs of these settings in the reference are the table's own
    """
    problem = reference_problem(experiment)
    if nothing_but_own and not problem:
        problem = f"no comparison with {experiment.reference}: its runs of these settings are this table's own"
    return [Note(f"{problem[0].upper()}{problem[1:]}.")] if problem else []


def mean_cell(expected: Expected, signed: bool, digits: int = 1) -> Cell:
    """Return the mean of the reference; a dash where it has no run."""
    if expected.mean is None:
        return Cell(DASH, tone="dim")
    return Cell(number(expected.mean, digits, signed), tone="dim", title=f"{expected.runs} reference runs")


def range_cell(expected: Expected, signed: bool, digits: int = 1) -> Cell:
    """Return the range in which the table's own value is expected (`expected.low` to `high`).

    The cell is marked if `expected.own` lies outside. With too few reference runs or builds for a range it says so,
    e.g. `too few (4 of 5)`. Without reference runs it has no text.
    """
    if expected.low is None:
        return Cell(f"{TOO_FEW} ({expected.lacking})" if expected.lacking else "", tone="dim")
    bounds = Estimate(expected.mean, expected.low, expected.high)
    shorter = (short_interval(bounds, signed, digits), short_interval(bounds, signed, digits - 1))
    return Cell(
        interval(bounds, digits, signed),
        shorter,
        "missing" if expected.outside else "dim",
        OUTSIDE if expected.outside else "",
        title=f"{expected.runs} reference runs",
    )
