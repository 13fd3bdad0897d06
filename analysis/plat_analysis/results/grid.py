"""The runs of an experiment laid out as rows x columns x two conditions, in the order of the experiment file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.results.labels import label
from plat_analysis.results.pairs import PairedCell, Side, average
from plat_analysis.results.published import AVERAGE
from plat_analysis.results.runs import Results, RunView, spell
from plat_analysis.statistics.families import starred
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

Sides = dict[tuple[str, str, str], dict[Replicate, RunView]]


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


def paired_grid(
    frames: Frames | None,
    experiment: Experiment,
    rows: str | Sequence[str] | None,
    columns: str,
    pair: str,
    baseline: Any,
    treatment: Any,
) -> Grid:
    """The grid that a builder or a check of paired conditions asks for by its arguments.

    Without frames it has every wanted run and no result, which shows whether the matrix has what is asked for.
    SpecError where it has not: a condition without runs, two runs in one place, sides of a pair with different seeds.
    """
    layout = Layout.read(experiment, rows, columns, pair, baseline, treatment)
    results = Results.planned(experiment) if frames is None else Results(frames, experiment)
    return Grid(results, layout)


class Grid:
    """A paired cell for every row and column: `grid.cells[row, column]`. `grid.average` is over columns."""

    def __init__(self, results: Results, layout: Layout) -> None:
        self.results, self.layout = results, layout
        sides = _sides(results, layout)
        self.rows = list(dict.fromkeys(row for row, _, _ in sides))
        self.columns = list(dict.fromkeys(column for _, column, _ in sides))
        self.cells = {
            (row, column): PairedCell(
                row,
                column,
                Side.of(results, sides.get((row, column, layout.baseline), {})),
                Side.of(results, sides.get((row, column, layout.treatment), {})),
            )
            for row in self.rows
            for column in self.columns
        }

    @property
    def averaged(self) -> list[str]:
        """The columns, and their average where there are several."""
        return [*self.columns, *([AVERAGE] if len(self.columns) > 1 else [])]

    def estimate(self, row: str, column: str, quantity: str) -> Estimate:
        """A quantity of one cell, or of the average over the columns."""
        return self.average(row, quantity) if column == AVERAGE else self.cells[row, column][quantity]

    def starred(self, quantity: str) -> dict[tuple[str, str], Estimate]:
        """(row, column) -> Estimate with its star; all cells, averages included, are one family."""
        columns = [
            {(row, column): self.estimate(row, column, quantity) for row in self.rows} for column in self.averaged
        ]
        return {key: estimate for column in starred(columns) for key, estimate in column.items()}

    def row(self, row: str) -> list[PairedCell]:
        """The cells of a row for which the matrix has runs."""
        return [self.cells[row, column] for column in self.columns if self.cells[row, column].wanted]

    def average(self, row: str, quantity: str) -> Estimate:
        """The mean of a quantity over the columns of a row, with equal weights."""
        return average(self.row(row), quantity)

    def runs(self, row: str) -> list[RunView]:
        """Every wanted run of a row."""
        sides = [side for cell in self.row(row) for side in (cell.baseline, cell.treatment)]
        return [run for side in sides for run in side.runs.values()]


def _sides(results: Results, layout: Layout) -> Sides:
    """(row, column, condition) -> its runs, in the order of the experiment file."""
    sides: Sides = {}
    for run in results.positions:
        condition = run.axis(layout.pair)
        if condition not in (layout.baseline, layout.treatment):
            continue
        row, column = " · ".join(run.axis(name) for name in layout.rows), run.axis(layout.columns)
        place = f"{row} × {column}, {layout.pair}={condition}"
        add_run(sides.setdefault((row, column, condition), {}), run, place)
    if not sides:
        raise SpecError(
            f"no run has {layout.pair} = {layout.baseline} or {layout.treatment}",
            mend="name an axis of the matrix as `pair`, and two of its values as `baseline` and `treatment`",
        )
    for row, column, _ in sides:
        first, second = (sides.get((row, column, condition), {}) for condition in (layout.baseline, layout.treatment))
        check_same_replicates(first, second, f"{row} × {column}", layout.baseline, layout.treatment)
    return sides


def places(results: Results, rows: Sequence[str], columns: str) -> dict[tuple[str, str], dict[Replicate, RunView]]:
    """(row, column) -> its runs, in the order of the experiment file; SpecError where one has two runs of one seed and
    build. Several row axes are joined."""
    groups: dict[tuple[str, str], dict[Replicate, RunView]] = {}
    for run in results.positions:
        key = (" · ".join(run.axis(axis) for axis in rows), run.axis(columns))
        add_run(groups.setdefault(key, {}), run, " × ".join(key))
    return groups


def panels(
    results: Results, rows: str | Sequence[str] | None, columns: str, pair: str
) -> dict[tuple[str, str, str], list[RunView]]:
    """(row, column, condition) -> its runs, for figures with a line for every condition; SpecError where one has two
    runs of one seed. Without rows: `variant` where the experiment has that axis, else a single row without a name."""
    if rows is None:
        rows = [axis for axis in ("variant",) if axis in results.experiment.axes]
    axes = (rows,) if isinstance(rows, str) else tuple(rows)
    groups: dict[tuple[str, str, str], dict[Replicate, RunView]] = {}
    for run in results.positions:
        key = (" · ".join(run.axis(axis) for axis in axes), run.axis(columns), run.axis(pair))
        add_run(groups.setdefault(key, {}), run, " × ".join(filter(None, key)))
    return {key: list(runs.values()) for key, runs in groups.items()}


def conditions(
    results: Results, pair: str, baseline: Any, treatment: Any = None
) -> tuple[dict[str, dict[Replicate, RunView]], str, str]:
    """(condition -> its runs, baseline first; baseline; treatment) over all runs; `treatment` is by default the first
    other value. SpecError where a condition has two runs of one seed, or the two sides different seeds."""
    groups: dict[str, dict[Replicate, RunView]] = {}
    for run in results.positions:
        condition = run.axis(pair)
        add_run(groups.setdefault(condition, {}), run, f"{pair}={condition}")
    baseline = spell(baseline)
    others = [condition for condition in groups if condition != baseline]
    treatment = spell(treatment) if treatment is not None else next(iter(others), baseline)
    check_same_replicates(groups.get(baseline, {}), groups.get(treatment, {}), pair, baseline, treatment)
    return {c: groups[c] for c in (baseline, *others) if c in groups}, baseline, treatment


def add_run(runs: dict[Replicate, RunView], run: RunView, place: str) -> None:
    """Add a run to those of one place; SpecError where one of the same seed and build is there already."""
    if run.replicate in runs:
        raise SpecError(
            f"more than one run for {place}, seed {run.seed}: {runs[run.replicate].run.name} and {run.run.name}",
            mend="name the axis in which they differ under `rows`, if the builder has it, or choose one of its values",
        )
    runs[run.replicate] = run


def check_same_replicates(
    first: Mapping[Replicate, RunView], second: Mapping[Replicate, RunView], place: str, baseline: str, treatment: str
) -> None:
    """SpecError where two conditions that both have runs have them for different seeds or builds."""
    if not first or not second or first.keys() == second.keys():
        return
    many_builds = len({replicate.build for replicate in [*first, *second]}) > 1
    unpaired = {
        condition: ", ".join(str(r if many_builds else Replicate(None, r.seed)) for r in own if r not in other)
        for condition, own, other in ((baseline, first, second), (treatment, second, first))
    }
    only = "; ".join(f"only {condition} has {names}" for condition, names in unpaired.items() if names)
    raise SpecError(
        f"the two sides of a pair have different runs, {place}: {only}",
        mend="give both sides the same seeds and builds: check `include`, `exclude` and `zip`",
    )
