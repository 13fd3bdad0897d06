"""The fixed instances that evaluations play: the same for every run, step and trainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from plat.errors import SpecError
from plat.trainer.config import RunConfig
from plat.trainer.environments import make_environments
from plat.units import counted
from plat_envs.api import Environment
from plat_envs.instances import evaluation_seeds

SPLITS = ("validation", "heldout")


class FixedInstances:
    """The first `count` distinct problems of a split, the same for every run with this `eval.seed`.

    Of two counts the smaller set is the beginning of the larger one. They keep their environments, so that evaluating
    again is cheap. SpecError: the task does not have so many.
    """

    def __init__(self, config: RunConfig, split: str, count: int) -> None:
        self.split = split
        self.environments = make_environments(config, split, count)
        self.seeds = evaluation_seeds(self.environments[0], config.eval.seed, count)
        distinct = len(self.problems())
        if distinct < count:
            raise too_few(config.task.name, split, distinct, count)

    def __len__(self) -> int:
        return len(self.seeds)

    def problems(self) -> set[str]:
        """The problem of each instance, in its canonical form."""
        return {environment.problem for environment in self._started()}

    def _started(self) -> Iterator[Environment]:
        for environment, seed in zip(self.environments, self.seeds, strict=True):
            environment.reset(seed)
            yield environment


def count_key(split: str) -> str:
    """The option that says how many problems of this split a run is evaluated on."""
    return "eval.heldout" if split == "heldout" else "eval.instances"


def too_few(task: str, split: str, distinct: int, count: int) -> SpecError:
    """The error of a task that has fewer problems than are asked for; evaluations play no problem twice."""
    key = count_key(split)
    return SpecError(
        f"{task} has {counted(distinct, 'different problem')} for {split}, {count} are asked for",
        where=key,
        mend=f"{key}={distinct}, or more problems (task.env)",
    )


def chosen_instances(config: RunConfig, options: Mapping[str, Any] | None = None) -> FixedInstances:
    """The instances that `plat eval` asks for.

    options: split (validation | heldout, default heldout), instances (default: as many as in the run); SpecError for
    others.
    """
    options = dict(options or {})
    for name in options.keys() - {"split", "instances"}:
        raise SpecError(
            f"the evaluation has no option {name!r}",
            mend="split, instances, or a key of the run's config such as eval.temperature",
        )
    split = str(options.get("split", "heldout"))
    if split not in SPLITS:
        raise SpecError(f"there is no split {split!r}", where="split", mend=f"one of: {', '.join(SPLITS)}")
    default = config.eval.heldout if split == "heldout" else config.eval.instances
    count = options.get("instances", default or config.eval.instances)
    if type(count) is not int or count < 1:
        raise SpecError(f"{count!r} instances cannot be played", where="instances", mend="a whole number from 1")
    return FixedInstances(config, split, count)
