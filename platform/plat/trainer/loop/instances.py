"""The fixed instances that evaluations play: the same for every run, step and trainer."""

from __future__ import annotations

from collections.abc import Iterator

from plat.errors import SpecError
from plat.trainer.config import RunConfig
from plat.trainer.environments import make_environments
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
            key = "eval.heldout" if split == "heldout" else "eval.instances"
            raise SpecError(
                f"{config.task.name} has {distinct} different problems for {split}, {count} are asked for",
                where=key,
                mend=f"{key}={distinct}, or more problems (task.env)",
            )

    def __len__(self) -> int:
        return len(self.seeds)

    def problems(self) -> set[str]:
        """The problem of each instance, in its canonical form."""
        return {environment.problem for environment in self._started()}

    def _started(self) -> Iterator[Environment]:
        for environment, seed in zip(self.environments, self.seeds, strict=True):
            environment.reset(seed)
            yield environment
