"""The runs of an experiment laid out as rows x columns x two conditions, in the order of the experiment file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.labels import label
from plat_analysis.pairs import PairedCell, Side, average
from plat_analysis.results import Results, RunView, spell
from plat_analysis.statistics import Estimate

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment


@dataclass(frozen=True)
class Layout:
    """Which axes make the rows and the columns, and which two values of which axis (`pair`) are compared."""

    rows: tuple[str, ...]
    columns: str
    pair: str
    baseline: str
    treatment: str

    @classmethod
    def read(
        cls,
        experiment: Experiment,
        rows: str | Sequence[str] | None,
        columns: str,
        pair: str,
        baseline: Any,
        treatment: Any,
    ) -> Layout:
        """From the arguments of a report or a claim; several row axes are joined. Without rows: `variant` where the
        experiment has that axis, else the algorithm."""
        if rows is None:
            rows = "variant" if "variant" in experiment.axes else "algorithm"
        return cls((rows,) if isinstance(rows, str) else tuple(rows), columns, pair, spell(baseline), spell(treatment))

    def name(self, condition: str) -> str:
        """A condition in print: `Top-p`, or `filter.value = 0.9`."""
        return label(condition) if self.pair == "filter" else f"{self.pair} = {condition}"


class Grid:
    """`grid.cells[row, column]` for every row and column; `grid.average(row, quantity)`."""

    def __init__(self, results: Results, layout: Layout) -> None:
        self.layout = layout
        rows: dict[str, None] = {}
        columns: dict[str, None] = {}
        sides: dict[tuple[str, str, str], dict[Any, RunView]] = {}
        for run in results.positions:
            condition = run.axis(layout.pair)
            if condition not in (layout.baseline, layout.treatment):
                continue
            row, column = " · ".join(run.axis(name) for name in layout.rows), run.axis(layout.columns)
            rows[row] = columns[column] = None
            seeds = sides.setdefault((row, column, condition), {})
            if run.seed in seeds:
                raise SpecError(
                    f"more than one run for {row} × {column}, {layout.pair}={condition}, seed {run.seed}: "
                    f"{seeds[run.seed].run.name} and {run.run.name}",
                    mend="name the axis in which they differ under `rows` of the report",
                )
            seeds[run.seed] = run
        if not rows:
            raise SpecError(
                f"no run has {layout.pair} = {layout.baseline} or {layout.treatment}",
                mend=f"give two values of the axis {layout.pair!r} as `baseline` and `treatment` of the report",
            )
        self.rows, self.columns = list(rows), list(columns)
        self.cells = {
            (row, column): PairedCell(
                row,
                column,
                Side.of(results, sides.get((row, column, layout.baseline), {})),
                Side.of(results, sides.get((row, column, layout.treatment), {})),
            )
            for row in rows
            for column in columns
        }

    def row(self, row: str) -> list[PairedCell]:
        """The cells of a row for which the matrix has runs."""
        return [self.cells[row, column] for column in self.columns if self.cells[row, column].wanted]

    def average(self, row: str, quantity: str) -> Estimate:
        return average(self.row(row), quantity)

    def runs(self, row: str) -> list[RunView]:
        """Every wanted run of a row."""
        sides = [side for cell in self.row(row) for side in (cell.baseline, cell.treatment)]
        return [run for side in sides for run in side.runs.values()]
