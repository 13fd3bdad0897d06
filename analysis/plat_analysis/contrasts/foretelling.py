"""Options of predicting an outcome of settings from their metrics, with a setting left out each time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS
from plat_analysis.contrasts.setting_correlations import OverSettings, Settings
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.leads import Foretold, foretell


@dataclass(frozen=True, kw_only=True)
class Foretelling(OverSettings):
    """Hold the options of predicting an outcome, with a setting left out each time.

    metrics     printed name -> metric
    known       the metric beside which the others predict it
    """

    metrics: Mapping[str, str]
    known: str = SUCCESS

    def settings(self, results: Results) -> dict[str, Settings]:
        """Return the settings of each row. Raises SpecError as `OverSettings` does, or if no metric is named."""
        if not self.metrics:
            raise SpecError("metrics: none is named", fix="write {NAME: METRIC}, e.g. {retrieval: probe/retrieval_acc}")
        return super().settings(results)

    def foretold(self, settings: Settings, metric: str, at: int) -> Foretold | str:
        """Return what a metric adds, or a text why that is unknown. Its value is the last one up to iteration `at`."""
        outcome = quantity(self.outcome)
        pairs = [settings.pair(quantity({"metric": name, "at": at}), outcome) for name in (metric, self.known)]
        for pair in pairs:
            if not pair.complete:
                return pair.note
        return foretell(pairs[0].x, pairs[1].x, pairs[0].y, families=settings.families)


def check_steps(name: str, steps: object, least: int = 0) -> None:
    """Raise SpecError unless `steps` is an iteration from `least` on, or a list of some. The message has the `name`."""
    given = steps if isinstance(steps, list | tuple) else [steps]
    if not given or not all(isinstance(step, int) and not isinstance(step, bool) and step >= least for step in given):
        several = isinstance(steps, list | tuple)
        what = "a list of training iterations" if several else "a training iteration"
        raise SpecError(f"{name}: {steps!r} is not {what}", fix=f"write {name}: {'[8, 16, 30]' if several else 8}")
