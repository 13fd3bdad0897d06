"""Early stops of appendix B.2, which end a collapsed run. A stop is an outcome of the run, not a failure.

    reward_variance_collapse   reward variance under `variance_fraction` of its mean over the first `variance_baseline`
                               iterations, for `variance_window` consecutive iterations
    low_success                validation success under `success_floor` for `success_window` consecutive evaluations
    empty_batches              nothing left to train on for `empty_window` consecutive iterations (released code)

A window of 0 switches a stop off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat_rl.rl.config import EarlyStopConfig


@dataclass
class Counts:
    """What the stops count; JSON scalars, so that a resumed run stops exactly where an uninterrupted one does."""

    baseline_sum: float = 0.0
    baseline_count: int = 0
    low_variance: int = 0  # consecutive
    low_success: int = 0
    empty: int = 0


class EarlyStops:
    """The stops of one run. Call `iteration` and `evaluation` after each; they return the reason to stop, or None."""

    def __init__(self, config: EarlyStopConfig, counts: Mapping[str, Any] | None = None) -> None:
        self.config, self.counts = config, Counts(**(counts or {}))

    def iteration(self, reward_variance: float, empty: bool = False) -> str | None:
        """Count one iteration, and return the reason to stop, or None.

        reward_variance  mean over the prompts of the batch before filtering; NaN (undefined) changes no count of it
        empty            True if no prompt was kept, so that the update was skipped
        """
        counts, config = self.counts, self.config
        counts.empty = counts.empty + 1 if empty else 0
        if not math.isnan(reward_variance):
            if counts.baseline_count < config.variance_baseline:
                counts.baseline_sum += float(reward_variance)
                counts.baseline_count += 1
            else:
                baseline = counts.baseline_sum / max(counts.baseline_count, 1)
                low = reward_variance < config.variance_fraction * baseline
                counts.low_variance = counts.low_variance + 1 if low else 0
        return self.reason

    def evaluation(self, success: float) -> str | None:
        """Count one evaluation, and return the reason to stop, or None.

        success  share of validation instances solved, 0 to 1
        """
        self.counts.low_success = self.counts.low_success + 1 if success < self.config.success_floor else 0
        return self.reason

    @property
    def reason(self) -> str | None:
        """The reason to stop now, or None."""
        counts, config = self.counts, self.config
        for count, window, reason in (
            (counts.low_variance, config.variance_window, "reward_variance_collapse"),
            (counts.low_success, config.success_window, "low_success"),
            (counts.empty, config.empty_window, "empty_batches"),
        ):
            if 0 < window <= count:
                return reason
        return None
