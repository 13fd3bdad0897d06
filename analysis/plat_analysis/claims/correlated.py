"""Check that measures correlate with an outcome, over the settings of a sweep or over the runs within them.

Between settings the verdict follows from `statistics.correlation.apart`: measure and outcome come from different builds
or seeds, and settings are permuted within families. `not_positive` means: shown to be below `smallest` on Fisher's
scale, since no test can show that a correlation is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import LEVEL, RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import over_settings
from plat_analysis.contrasts.families import sizes
from plat_analysis.contrasts.setting_correlations import Correlating, Pair, Settings, can_reach, check_decidable
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import Correlation, apart, between, within
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate
from plat_analysis.statistics.orders import smallest_p

Across = Literal["between", "within"]
Sign = Literal["positive", "negative", "not_positive"]
FEW = 10  # settings; of fewer, the verdict says how small a p-value can be


@dataclass(frozen=True, kw_only=True)
class Options(Correlating):
    """Hold the options of the claim.

    sign        what is claimed of the correlation: positive, negative, or not_positive (it is below `smallest`). The
                claim is contradicted where the opposite is shown
    across      between: correlate the settings' means over seeds; within: correlate the runs, after subtracting the
                means of their setting and of their seed
    smallest    the smallest correlation of interest
    looks       how often the claim will be judged while runs are added; the error is divided among these looks
    """

    sign: Sign = "positive"
    across: Across = "between"
    smallest: float = 0.3
    looks: int = 1

    def beforehand(self, results: Results) -> None:
        """Check the options, and that the claim can be decided, before anything is computed.

        Raises SpecError as `Correlating` does, for `smallest` outside [0, 1), for `strength` or `within` with
        `across: within`, or if no permutation test of these settings reaches the level of the claim.
        """
        if self.strength and self.across == "within":
            what = "strength: all runs of one setting have the same strength"
            raise SpecError(what, fix="leave `strength` out, or write across: between")
        if not 0 <= self.smallest < 1:
            what = f"smallest: {self.smallest:g} is not the size of a correlation"
            raise SpecError(what, fix="give a number from 0 to below 1")
        if self.within is not None and self.across == "within":
            what = "within: with `across: within` seeds are permuted, and no settings"
            raise SpecError(what, fix="leave `within` out, or write across: between")
        super().beforehand(results)
        if self.across == "between":
            for row, settings in self.settings(results).items():
                check_decidable(self.families(settings), LEVEL / self.looks, row)

    def foreseen(self, results: Results) -> list[str]:
        """Return, for each row, its settings and the smallest p-value that they allow; [] for runs within settings."""
        if self.across == "within":
            return []
        return [can_reach(row, self.families(own), LEVEL / self.looks) for row, own in self.settings(results).items()]


@takes(Options)
def correlated(results: Results, asked: Options) -> Verdict:
    """Each measure correlates with an outcome (Spearman), in every row; all of them share the error (Holm).

    It needs six settings with five runs each, and no run may be missing.
    """

    def test(name: str, settings: Settings, measure: Any) -> RowTests:
        return _tested(name, settings, settings.pair(quantity(measure), quantity(asked.outcome)), asked)

    return over_settings(asked.settings(results), asked.proxies, test, asked.looks)


def _tested(name: str, settings: Settings, pair: Pair, asked: Options) -> RowTests:
    if not pair.complete:
        return RowTests(None, None, f"{name} ({pair.note})")
    if settings.replicates < MIN_JUDGED:
        have = f"{settings.replicates} of the {MIN_JUDGED} runs in each setting that a verdict needs"
        return RowTests(None, None, f"{name} ({have})")
    found, about = _within(pair) if asked.across == "within" else _between(settings, pair, asked)
    p = {"positive": found.above, "negative": found.below, "not_positive": found.p_under(asked.smallest)}[asked.sign]
    opposite = found.below if asked.sign == "positive" else found.above
    shown = f"p {p_value(p)}"
    if asked.sign == "not_positive":
        shown += f" against {number(asked.smallest, 2)}, {p_value(opposite)} for more than zero"
    runs = int(pair.x.size)
    counts: dict[str, Any] = {"seeds": runs, "wanted": runs, "units": found.settings, "run_ids": pair.run_ids}
    estimate = Estimate(found.rho, found.low, found.high, "settings", **counts)
    return RowTests(p, opposite, f"{name}: {_words(found)}; {about[0]}, {shown} {about[1]}", estimate)


def _within(pair: Pair) -> tuple[Correlation, tuple[str, str]]:
    """Return the correlation within settings, and the words before and after its p-value."""
    found = within(pair.x, pair.y)
    return found, (f"within {found.settings} settings", "(permutation)")


def _between(settings: Settings, pair: Pair, asked: Options) -> tuple[Correlation, tuple[str, str]]:
    """Return the correlation that decides between settings, and the words before and after its p-value."""
    given, families = asked.given(settings), asked.families(settings)
    found = apart(pair.x, pair.y, families, given)
    assert found is not None  # every setting has MIN_JUDGED runs
    units = "builds" if pair.x.shape[1] > 1 else "seeds"
    adjusted = ", adjusted for strength" if given is not None else ""
    how = f"measure and outcome of different {units}, {sizes(families)}{adjusted}"
    # An exact test holds its error with six settings as with eighteen (benchmarks/error_rates.py, part correlation), so
    # few settings are judged. What they lack is power, which the smallest p-value shows.
    few = f"; the smallest p of so few settings is {p_value(smallest_p(families))}" if len(families) < FEW else ""
    alike = between(pair.x, pair.y)
    moved = "permutation within families" if len(set(families)) > 1 else "permutation"
    return found, (how, f"({moved}{few}); {_words(alike)} in the same runs, over all settings alike")


def _words(found: Correlation) -> str:
    return f"{number(found.rho, 2, True)} [{number(found.low, 2, True)}, {number(found.high, 2, True)}]"
