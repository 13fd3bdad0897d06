"""Which runs a report entry or a claim compares: the options of everything that sets two conditions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat_analysis.results.grid import Grid, Layout
from plat_analysis.results.runs import Results, spell
from plat_analysis.statistics.replicates import Builds

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


@dataclass(frozen=True)
class Comparison:
    """Two conditions in every cell of rows x columns, by the names of the experiment file.

    rows       an axis, or several that are joined (default: `variant` where the matrix has it, else the algorithm)
    columns    an axis
    pair       the axis whose two values `baseline` and `treatment` are compared
    builds     what intervals, stars and verdicts are about where there are several builds of the base model: `fixed`,
               these builds, over their seeds; or `random`, such builds, from three on
    """

    rows: str | Sequence[str] | None = None
    columns: str = "task"
    pair: str = "filter"
    baseline: Any = "none"
    treatment: Any = "top_p"
    builds: Builds = "random"

    def layout(self, experiment: Experiment) -> Layout:
        """The axes and values, as runs spell them."""
        rows = self.rows
        if rows is None:
            rows = "variant" if "variant" in experiment.axes else "algorithm"
        rows = (rows,) if isinstance(rows, str) else tuple(rows)
        return Layout(rows, self.columns, self.pair, spell(self.baseline), spell(self.treatment))

    def grid(self, frames: Frames | None, experiment: Experiment) -> Grid:
        """The runs laid out so.

        Without frames the grid has every wanted run and no result, which shows whether the matrix has what is asked
        for. SpecError where it has not: a condition without runs, two runs in one place, sides of a pair with
        different seeds.
        """
        results = Results.planned(experiment) if frames is None else Results(frames, experiment)
        return Grid(results, self.layout(experiment), self.builds)
