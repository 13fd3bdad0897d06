"""Check that a metric at an iteration predicts the outcome of unseen settings, beyond a metric known then.

The tests are those of `statistics.leads`. The opposite, that a metric predicts nothing, is never shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from plat_analysis.artifact import number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import over_settings
from plat_analysis.contrasts.setting_correlations import Foretelling, check_steps
from plat_analysis.contrasts.sweep_settings import Settings
from plat_analysis.data.results import Results
from plat_analysis.statistics.intervals import MIN_JUDGED


@dataclass(frozen=True, kw_only=True)
class Options(Foretelling):
    """Hold the options of a prediction at one iteration.

    at          the iteration: metrics count as last measured by then
    """

    at: int

    def beforehand(self, results: Results) -> None:
        """Raise SpecError where there are too few settings, no metric, or no iteration."""
        check_steps("at", self.at)
        self.settings(results)


@takes(Options)
def foretells(results: Results, asked: Options, *, looks: int = 1) -> Verdict:
    """Each metric improves the prediction of a setting's outcome from the other settings.

    The setting is left out, and its outcome predicted twice: from what is known, and from that and the metric.

    looks       how often the claim will be judged while runs are added; the error is divided among these looks
    """

    def test(name: str, settings: Settings, metric: str) -> RowTests:
        if settings.replicates < MIN_JUDGED:
            return RowTests(None, None, f"{name} ({settings.replicates} runs a setting, {MIN_JUDGED} are needed)")
        found = asked.foretold(settings, metric, asked.at)
        if isinstance(found, str):
            return RowTests(None, None, f"{name} ({found})")
        line = (
            f"{name} at {asked.at}: predictions for a setting left out explain {number(found.with_it, 2)} of the "
            f"outcome with this metric and {number(found.without, 2)} without it, p {p_value(found.p)} (permutation "
            "and sign flips)"
        )
        return RowTests(found.p, 1.0, line)

    return over_settings(asked.settings(results), asked.metrics, test, looks)
