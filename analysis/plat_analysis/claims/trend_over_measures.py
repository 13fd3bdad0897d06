"""Whether several measures of the same runs fall, or rise, in their order, in every row: Page's test and the slope.

Such are the gradients of buckets of prompts, ordered by reward variance (Figure 3), and the turns of a trajectory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import chosen_rows
from plat_analysis.claims.ordered import Direction, judge_trend
from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.data.runs import Results
from plat_analysis.facets import AxisNames, Facets, Layout
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.trend import MIN_CONDITIONS

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def _beforehand(results: Results, *, measures: Any, rows: AxisNames = None, only: Sequence[str] = (), **_: Any) -> None:
    """SpecError where there are too few measures for a trend, or two that are shown in different units."""
    _contrasts(measures)
    chosen_rows(Facets(results, Layout.of(rows=rows)).rows, only)


@checked_by(_beforehand)
def trend_over_measures(
    frames: Frames,
    experiment: Experiment,
    *,
    measures: Mapping[str, Any],
    direction: Direction = "falling",
    rows: AxisNames = None,
    only: Sequence[str] = (),
    looks: int = 1,
) -> Verdict:
    """Measures of the same runs fall (or rise) from each to the next, in every row, or in those in `only`.

    Values are compared within each build and seed, by their ranks (Page's test) and their slope (`statistics.trend`).
    The verdict is about these builds of the base model.

    measures  name -> what is measured of a run (see `plat_analysis.quantities.metric`), three or more, in order
    rows      axes that make the rows (default: one row)
    only      the rows that are judged (default: all)
    looks     how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    facets = Facets(Results.of(frames, experiment), Layout.of(rows=rows))
    facets.rows = chosen_rows(facets.rows, only)
    return judge_trend(facets, _contrasts(measures), next(iter(measures)), direction, looks)


TREND_OVER_MEASURES = trend_over_measures


def _contrasts(measures: Any) -> dict[str, Contrast]:
    """Name -> the level of its measure. SpecError where the measures have no trend."""
    if not isinstance(measures, Mapping) or len(measures) < MIN_CONDITIONS:
        count = len(measures) if isinstance(measures, Mapping) else 0
        raise SpecError(
            f"measures: a trend needs {MIN_CONDITIONS} named measures in order, and {count} are named",
            mend="write measures: {NAME: MEASURE, ...}",
        )
    given = list(measures.items())
    for index, (name, measure) in enumerate(given):
        for earlier, other in given[:index]:
            if measure == other:
                raise SpecError(f"measures: {earlier} and {name} are one measure", mend="name different measures")
    found = {str(name): quantity(measure, str(name)) for name, measure in given}
    if len({measured.factor for measured in found.values()}) > 1:
        raise SpecError(
            "measures: some are in percent and others are not", mend="give `percent: true` to all of them, or to none"
        )
    return {name: Contrast(Term("", measured)) for name, measured in found.items()}
