"""Early stops of appendix B.2: when a run is beyond hope. A stop is an outcome of the run, not a failure.

    reward_variance_collapse   reward variance under `variance_fraction` of its mean over the first `variance_baseline`
                               iterations, for `variance_window` consecutive iterations
    low_success                validation success under `success_floor` for `success_window` consecutive evaluations
    empty_batches              nothing left to train on for `empty_window` consecutive iterations (released code)

A window of 0 switches that stop off. The state is a small dict of JSON scalars, so a resumed run stops exactly where an
undisturbed one does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from plat.rl.config import EarlyStopConfig

REWARD_VARIANCE_COLLAPSE = "reward_variance_collapse"
LOW_SUCCESS = "low_success"
EMPTY_BATCHES = "empty_batches"


@dataclass
class _Counts:
    baseline_sum: float = 0.0
    baseline_count: int = 0
    low_variance: int = 0  # consecutive
    low_success: int = 0
    empty: int = 0


class EarlyStops:
    """Call `iteration` once per iteration and `evaluation` once per evaluation; both return why to stop, or None."""

    def __init__(self, config: EarlyStopConfig) -> None:
        self.config = config
        self._counts = _Counts()

    def iteration(self, reward_variance: float, empty: bool = False) -> str | None:
        """`reward_variance`: mean over the prompts of the batch before filtering; a NaN (undefined) is not counted.
        `empty`: nothing was kept, the update was skipped."""
        counts, config = self._counts, self.config
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
        """`success`: share of validation instances solved, 0 to 1."""
        low = success < self.config.success_floor
        self._counts.low_success = self._counts.low_success + 1 if low else 0
        return self.reason

    @property
    def reason(self) -> str | None:
        """Why to stop now, or None."""
        counts, config = self._counts, self.config
        for count, window, reason in (
            (counts.low_variance, config.variance_window, REWARD_VARIANCE_COLLAPSE),
            (counts.low_success, config.success_window, LOW_SUCCESS),
            (counts.empty, config.empty_window, EMPTY_BATCHES),
        ):
            if 0 < window <= count:
                return reason
        return None

    def to_dict(self) -> dict[str, float]:
        """JSON-able state for a checkpoint."""
        return asdict(self._counts)

    @classmethod
    def from_dict(cls, config: EarlyStopConfig, state: Mapping[str, Any]) -> EarlyStops:
        stops = cls(config)
        stops._counts = _Counts(**state)
        return stops
