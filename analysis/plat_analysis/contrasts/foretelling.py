"""Options of predicting an outcome of settings from their metrics, with a setting left out each time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from plat.errors import SpecError
from plat.words.metric_names import SUCCESS
from plat_analysis.contrasts.setting_correlations import OverSettings, Settings
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.leads import Foretold, foretell, least_settings


@dataclass(frozen=True, kw_only=True)
class Foretelling(OverSettings):
    """Hold the options of predicting an outcome, with a setting left out each time.

    metrics     printed name -> metric
    known       the metric, or list of metrics, beside which the others predict it
    """

    metrics: Mapping[str, str]
    known: str | Sequence[str] = SUCCESS

    @property
    def all_known(self) -> tuple[str, ...]:
        """Return the names of the known metrics."""
        return (self.known,) if isinstance(self.known, str) else tuple(self.known)

    def settings(self, results: Results) -> dict[str, Settings]:
        """Return the settings of each row.

        Raises SpecError as `OverSettings` does, if no metric is named, if `known` names none, one twice or one of the
        metrics, or if settings are too few for the known metrics.
        """
        if not self.metrics:
            raise SpecError("metrics: none is named", fix="write {NAME: METRIC}, e.g. {retrieval: probe/retrieval_acc}")
        known = self.all_known
        if not known or len(set(known)) < len(known) or not set(known).isdisjoint(self.metrics.values()):
            raise SpecError(
                f"known: {list(known)} must be different metrics, and none of `metrics`",
                fix="write known: success, or a list such as [success, val/format_valid]",
            )
        rows, least = super().settings(results), least_settings(len(known))
        for row, found in rows.items():
            if len(found.names) < least:
                where = f" ({row})" if row else ""
                raise SpecError(
                    f"known: {len(known)} metrics need {least} settings, there are {len(found.names)}{where}",
                    fix="name fewer known metrics",
                )
        return rows

    def foretold(self, settings: Settings, metric: str, at: int) -> Foretold | str:
        """Return what a metric adds, or a text why that is unknown. Its value is the last one up to iteration `at`."""
        outcome = quantity(self.outcome)
        names = (metric, *self.all_known)
        pairs = [settings.pair(quantity({"metric": name, "at": at}), outcome) for name in names]
        for pair in pairs:
            if not pair.complete:
                return pair.note
        known = [pair.x for pair in pairs[1:]]
        return foretell(pairs[0].x, np.stack(known), pairs[0].y, families=settings.families)


def check_steps(name: str, steps: object, least: int = 0) -> None:
    """Raise SpecError unless `steps` is an iteration from `least` on, or a list of some. The message has the `name`."""
    given = steps if isinstance(steps, list | tuple) else [steps]
    if not given or not all(isinstance(step, int) and not isinstance(step, bool) and step >= least for step in given):
        several = isinstance(steps, list | tuple)
        what = "a list of training iterations" if several else "a training iteration"
        raise SpecError(f"{name}: {steps!r} is not {what}", fix=f"write {name}: {'[8, 16, 30]' if several else 8}")
