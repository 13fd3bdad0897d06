"""Which runs a report entry or a claim compares: the options of everything that sets two conditions side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.contrasts.contrast import success_contrasts
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import Facets, Layout, rows_or
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
        """The axes that make rows, columns and conditions."""
        return Layout.of(rows_or(self.rows, experiment, "algorithm"), self.columns, self.pair)

    def grid(self, frames: Frames | None, experiment: Experiment) -> Compared:
        """The runs laid out so.

        Without frames every wanted run is there and no result, which shows whether the matrix has what is asked for.
        SpecError where it has not: a condition without runs, two runs in one place, sides of a pair with different
        seeds.
        """
        results = Results.planned(experiment) if frames is None else Results.of(frames, experiment)
        baseline, treatment = spell(self.baseline), spell(self.treatment)
        facets = Facets(results, self.layout(experiment), only=(baseline, treatment))
        if not facets.places:
            raise SpecError(
                f"no run has {self.pair} = {baseline} or {treatment}",
                mend="name an axis of the matrix as `pair`, and two of its values as `baseline` and `treatment`",
            )
        facets.check_pairs(baseline, treatment)
        return Compared(facets, baseline, treatment, self.builds)


class Compared(Estimates):
    """Two conditions in every row and column.

    contrasts  the levels and changes of success, by name: `peak`, `delta`, `final_delta`, ...
    """

    def __init__(self, facets: Facets, baseline: str, treatment: str, builds: Builds = "random") -> None:
        super().__init__(facets, (baseline, treatment), builds)
        self.baseline, self.treatment = baseline, treatment
        self.contrasts = success_contrasts(baseline, treatment)
