"""The trials of a search as a run source: asks for trials as earlier ones end, and Optuna's pruners judge them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from plat.search.search import Search
from plat.search.search_settings import Chosen
from plat.search.study import Study
from plat.search.trial import OpenTrial
from plat.search.trials import Trials
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run

JUDGE_EVERY = 0.5  # seconds between two checks of the active runs


class TrialSource(Trials):
    """A run source (`plat.dispatch.feed.Source`) that asks the study for trials; `runs` has every run so far.

    at_once  ask for a new trial while fewer runs than this are active
    on_end   called with a sentence when a trial is complete: its values, and the best so far
    """

    def __init__(
        self, home: Home, search: Search, study: Study, at_once: int, on_end: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(home, search, study, on_end)
        self._at_once = at_once
        self._pruner = make_pruner(search.pruner)
        self._has_pruner = search.pruner.name != "none"
        self._judged = 0.0

    def next(self) -> Sequence[Run]:
        """Return the runs to do now; [] if there are none at present.

        First come runs of complete trials whose result is gone, then runs of open trials, then runs of new trials. When
        all trials are over, return the runs that confirm the winner, once.
        """
        self._judge_all()
        most = 1 if self._has_pruner else None  # one at a time, so that stopping the first saves the others
        given = self._start_lost()
        for trial in list(self._open.values()):
            given += self._start(trial, most)
        while len(self._under_way) < self._at_once and self._may_ask():
            asked = self._ask()
            given += self._start(asked, most) if asked is not None else []
        return given or self._confirm()

    def _judge_all(self) -> None:
        """Prune bad trials, if the search has a pruner; at most every JUDGE_EVERY seconds."""
        if not self._has_pruner or time.monotonic() - self._judged < JUDGE_EVERY:
            return
        self._judged = time.monotonic()
        for trial in list(self._open.values()):
            self._ends(trial)

    def _judge(self, trial: OpenTrial) -> str:
        return trial.judge(self._study, self._pruner) if self._has_pruner else ""


# Optuna's pruners, which compare trials by their objective. `run_pruner` has those that judge one run.
#
# The seeds of a trial run one after another, so a bad trial costs only part of one run. At position `k (iterations +
# 1) + step` Optuna's curve has the mean of the final values of the first k seeds and the present value of the next. So
# equal positions of two trials have seen equally many seeds and steps.


def make_pruner(chosen: Chosen) -> Any:
    """Return the Optuna pruner of a setting; None for `none` and those of plug-ins."""
    from optuna import pruners

    options = chosen.options
    if chosen.name == "median":
        return pruners.MedianPruner(n_startup_trials=options["startup"], n_warmup_steps=options["warmup"])
    if chosen.name in ("successive_halving", "asha"):  # Optuna's is asynchronous; the defaults differ
        return pruners.SuccessiveHalvingPruner(
            min_resource=max(1, options["min_steps"]), reduction_factor=max(2, options["reduction"])
        )
    return None
