"""Check that measures correlate with an outcome, over the settings of a sweep or over the runs within them.

The permutation test has settings or seeds as units (see `statistics.correlation`). `not_positive` means: shown to be
below `smallest` on Fisher's scale, since no test can show that a correlation is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import over_settings
from plat_analysis.contrasts.setting_correlations import Correlating, Pair, Settings
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import Correlation, between, other_builds, partial, within
from plat_analysis.statistics.intervals import MIN_JUDGED

Across = Literal["between", "within"]
Sign = Literal["positive", "negative", "not_positive"]


@dataclass(frozen=True, kw_only=True)
class Options(Correlating):
    """Hold the options of the claim.

    sign        what is claimed of the correlation: positive, negative, or not_positive (it is below `smallest`). The
                claim is contradicted where the opposite is shown
    across      between: correlate the settings' means over seeds; within: correlate the runs, after subtracting the
                means of their setting and of their seed
    smallest    the smallest correlation of interest
    """

    sign: Sign = "positive"
    across: Across = "between"
    smallest: float = 0.3

    def beforehand(self, results: Results) -> None:
        """Raise SpecError as `Correlating` does, for `smallest` outside [0, 1), or `strength` with `across: within`."""
        if self.strength and self.across == "within":
            what = "strength: all runs of one setting have the same strength"
            raise SpecError(what, fix="leave `strength` out, or write across: between")
        if not 0 <= self.smallest < 1:
            what = f"smallest: {self.smallest:g} is not the size of a correlation"
            raise SpecError(what, fix="give a number from 0 to below 1")
        super().beforehand(results)


@takes(Options)
def correlated(results: Results, asked: Options, *, looks: int = 1) -> Verdict:
    """Each measure correlates with an outcome (Spearman), in every row; all of them share the error (Holm).

    It needs six settings with five runs each, and no run may be missing.

    looks       how often the claim will be judged while runs are added; the error is divided among these looks
    """

    def test(name: str, settings: Settings, measure: Any) -> RowTests:
        return _tested(name, settings, settings.pair(quantity(measure), quantity(asked.outcome)), asked)

    return over_settings(asked.settings(results), asked.proxies, test, looks)


def _tested(name: str, settings: Settings, pair: Pair, asked: Options) -> RowTests:
    if not pair.complete:
        return RowTests(None, None, f"{name} ({pair.note})")
    if settings.replicates < MIN_JUDGED:
        return RowTests(None, None, f"{name} ({settings.replicates} runs a setting, {MIN_JUDGED} are needed)")
    given, across, sign = asked.given(settings), asked.across, asked.sign
    if across == "within":
        found = within(pair.x, pair.y)
    else:
        found = between(pair.x, pair.y) if given is None else partial(pair.x, pair.y, given)
    p = {"positive": found.above, "negative": found.below, "not_positive": found.p_under(asked.smallest)}[sign]
    opposite = found.below if sign == "positive" else found.above
    shown = f"p {p_value(p)} (permutation)"
    if sign == "not_positive":
        shown = (
            f"p {p_value(p)} against {number(asked.smallest, 2)}, {p_value(opposite)} for more than zero (permutation)"
        )
    elsewhere = other_builds(pair.x, pair.y) if across == "between" and given is None else None
    apart = f"; correlation with the outcomes of the other builds {_words(elsewhere)}" if elsewhere else ""
    how = f"{across} {found.settings} settings{', adjusted for strength' if given is not None else ''}"
    return RowTests(p, opposite, f"{name}: {_words(found)} {how}, {shown}{apart}")


def _words(found: Correlation) -> str:
    return f"{number(found.rho, 2, True)} [{number(found.low, 2, True)}, {number(found.high, 2, True)}]"
