"""Check that several measures of the same runs fall, or rise, in their order, in every row (Figure 3, turns)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat_analysis.builder_options import takes
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChosenRows
from plat_analysis.claims.trend import Direction, judge_trend
from plat_analysis.contrasts.contrast import Contrast, Term
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.trend_test import MIN_CONDITIONS


@dataclass(frozen=True, kw_only=True)
class Options(ChosenRows):
    """Hold the options of a trend over measures.

    measures  name -> the measure of a run (see `plat_analysis.quantities.metric`), three or more, in order
    """

    measures: Mapping[str, Any]

    def beforehand(self, results: Results) -> None:
        """Raise SpecError where there are too few measures for a trend, or their units differ."""
        _contrasts(self.measures)
        super().beforehand(results)


@takes(Options)
def trend_over_measures(results: Results, asked: Options, *, direction: Direction = "falling") -> Verdict:
    """Measures of the same runs fall (or rise) from each to the next, in every row, or in those in `only`.

    Values are compared within each build and seed, by ranks (Page's test) and slope (`statistics.trend_test`). The
    verdict is about these builds of the base model.
    """
    facets, contrasts = asked.facets(results), _contrasts(asked.measures)
    return judge_trend(facets, contrasts, next(iter(contrasts)), direction, asked.looks)


def _contrasts(measures: Any) -> dict[str, Contrast]:
    """Return name -> the level of its measure. SpecError where the measures are not three in one unit."""
    if not isinstance(measures, Mapping) or len(measures) < MIN_CONDITIONS:
        count = len(measures) if isinstance(measures, Mapping) else 0
        raise SpecError(
            f"measures: a trend needs {MIN_CONDITIONS} named measures in order, and {count} are named",
            fix="write measures: {NAME: MEASURE, ...}",
        )
    given = list(measures.items())
    for index, (name, measure) in enumerate(given):
        for earlier, other in given[:index]:
            if measure == other:
                raise SpecError(f"measures: {earlier} and {name} are one measure", fix="name different measures")
    found = {str(name): quantity(measure, str(name)) for name, measure in given}
    if len({measured.factor for measured in found.values()}) > 1:
        raise SpecError(
            "measures: some are in percent and others are not", fix="give `percent: true` to all of them, or to none"
        )
    return {name: Contrast(Term("", measured)) for name, measured in found.items()}
