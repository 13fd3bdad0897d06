"""Whether runs will log a metric: a misspelt name is refused before anything is trained."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from plat.errors import SpecError
from plat.spec.runs import Run
from plat.suggest import mend, nearest
from plat.trainer.api import find_trainer

SUCCESS = "success"  # stands for the headline metric of a run's trainer


def check_metric(name: str, runs: Iterable[Run], also: Iterable[str] = ()) -> None:
    """SpecError, with the nearest name, where every trainer of these runs says what it logs and none logs `name`.

    A trainer that does not say may log anything. `success` is always logged. `also` are other names that would be valid
    in its place.
    """
    trainers = [find_trainer(trainer) for trainer in dict.fromkeys(run.trainer for run in runs)]
    if name == SUCCESS or not all(trainer.metrics for trainer in trainers):
        return
    logged = list(dict.fromkeys(metric for trainer in trainers for metric in (trainer.headline, *trainer.metrics)))
    if any(fnmatchcase(name, metric) for metric in logged):
        return
    names = [*also, SUCCESS, *logged]
    same_prefix = [metric for metric in names if metric.startswith(name.partition("/")[0] + "/")]
    shown = names if nearest(name, names) else same_prefix or names
    who = ", ".join(trainer.name for trainer in trainers)
    raise SpecError(f"no run logs the metric {name!r} (trainer: {who})", mend=mend(name, shown, "metrics"))
