"""The pruner `asha`: Ray Tune's asynchronous successive halving (ASHA) decides, Optuna's study remembers.

Tune's scheduler class is used as it is, without Tune's controller: it is told every value that the study is told, and
asked whether the trial goes on. So it serves on every dispatcher, and a search that was killed goes on with the rungs
that it had: they follow from the values that the study has stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from optuna.pruners import BasePruner

if TYPE_CHECKING:
    from optuna import Study
    from optuna.study import StudyDirection
    from optuna.trial import FrozenTrial
    from ray.tune.schedulers import AsyncHyperBandScheduler


class _TuneTrial:
    """What Tune's scheduler asks of a trial: its name."""

    def __init__(self, number: int) -> None:
        self.trial_id = str(number)


class TuneAsha(BasePruner):
    """Gives up a trial that, at a rung, is worse than the best `1 / reduction` of those that reached the rung.

    min_steps  the first rung; the next is `reduction` times as far, and so on
    most       steps of a whole trial, with all its seeds
    """

    def __init__(self, min_steps: int, reduction: int, most: int) -> None:
        self._first = max(1, min_steps)
        self._reduction = max(2, reduction)
        self._most = max(most, self._first)
        self._scheduler: AsyncHyperBandScheduler | None = None
        self._known: set[int] = set()

    def prune(self, study: Study, trial: FrozenTrial) -> bool:
        """Whether the newest value of the trial lets Tune stop it. Values must come in the order of their steps."""
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
        trial: Any = _TuneTrial(number)
        controller: Any = None  # ASHA asks nothing of it
        if number not in self._known:
            self._known.add(number)
            self._scheduler.on_trial_add(controller, trial)
        decision = self._scheduler.on_trial_result(controller, trial, {"step": step, "value": value})
        return bool(decision == self._scheduler.STOP)
