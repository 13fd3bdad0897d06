"""The pruner `asha`: Ray Tune's asynchronous successive halving (ASHA) on the values of an Optuna study.

It uses Tune's scheduler class without its controller, so it works with every dispatcher. The rungs are rebuilt from the
stored values, so a killed search resumes with the same rungs.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from optuna.pruners import BasePruner

if TYPE_CHECKING:
    from optuna import Study
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial
    from ray.tune.schedulers import AsyncHyperBandScheduler


class TuneAsha(BasePruner):
    """Stop a trial that is not among the best `1 / reduction` of the trials that reached a rung.

    min_steps  step of the first rung; each further rung is at `reduction` times the step of the one before
    most       steps of a whole trial, over all its seeds
    """

    def __init__(self, min_steps: int, reduction: int, most: int) -> None:
        self._first = max(1, min_steps)
        self._reduction = max(2, reduction)
        self._most = max(most, self._first)
        self._scheduler: AsyncHyperBandScheduler | None = None
        self._known: set[int] = set()

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Return True if Tune stops the trial at its newest value. Call it in the order of the steps."""
        if self._scheduler is None:
            self._scheduler = self._new_scheduler(study.direction)
            for stored in study.get_trials(deepcopy=False):
                if stored.number != trial.number:
                    self._tell_all(stored.number, stored.intermediate_values)
            earlier = dict(sorted(trial.intermediate_values.items())[:-1])
            self._tell_all(trial.number, earlier)
        step = max(trial.intermediate_values)
        return self._tell(trial.number, step, trial.intermediate_values[step])

    def _new_scheduler(self, direction: StudyDirection) -> AsyncHyperBandScheduler:
        from ray.tune.schedulers import AsyncHyperBandScheduler

        return AsyncHyperBandScheduler(
            time_attr="step",
            metric="value",
            mode="max" if direction.name == "MAXIMIZE" else "min",
            max_t=self._most,
            grace_period=self._first,
            reduction_factor=self._reduction,
            stop_last_trials=False,
        )

    def _tell_all(self, number: int, values: Mapping[int, float]) -> None:
        for step in sorted(values):
            self._tell(number, step, values[step])

    def _tell(self, number: int, step: int, value: float) -> bool:
        assert self._scheduler is not None
        trial: Any = SimpleNamespace(trial_id=str(number))  # the scheduler reads only the name of a Tune trial
        controller: Any = None  # ASHA never calls it
        if number not in self._known:
            self._known.add(number)
            self._scheduler.on_trial_add(controller, trial)
        decision = self._scheduler.on_trial_result(controller, trial, {"step": step, "value": value})
        return bool(decision == self._scheduler.STOP)
