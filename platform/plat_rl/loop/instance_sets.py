"""The fixed instances that evaluations play: the same for every run, step and trainer."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from plat.errors import SpecError
from plat.units import counted
from plat_envs.api import Environment
from plat_envs.instances import TRIES, distinct_seeds, evaluation_seeds
from plat_rl.loop.randomness import probe_seed
from plat_rl.rl.config import PROBE_BLOCK
from plat_rl.run_config import RunConfig
from plat_rl.sessions import Sessions

SPLITS = ("validation", "heldout")


class FixedInstances:
    """The first `count` distinct problems of a split, the same for every run with this `eval.seed`.

    A smaller set is the beginning of a larger one. `problems` has the canonical forms of the problems. `sessions` lends
    the environments. Raises SpecError if the task has too few problems.
    """

    def __init__(self, config: RunConfig, split: str, count: int, sessions: Sessions | None = None) -> None:
        self.split = split
        self.seeds: list[int] = []
        self.problems: set[str] = set()
        self._sessions = sessions or Sessions(config)
        if count:
            with self._sessions.lease(split, 1) as (environment,):
                self.seeds = evaluation_seeds(environment, config.eval.seed, count)
                self.problems = {_problem(environment, seed) for seed in self.seeds}
        if len(self.problems) < count:
            raise too_few(config.task.name, split, len(self.problems), count)

    def __len__(self) -> int:
        return len(self.seeds)

    @property
    def concurrent(self) -> bool:
        """True if the environments may be stepped in several threads at once."""
        return self._sessions.concurrent

    def lease(self) -> AbstractContextManager[list[Environment]]:
        """Lend an environment for each instance, as `Sessions.lease` does."""
        return self._sessions.lease(self.split, len(self))


def _problem(environment: Environment, seed: int) -> str:
    environment.reset(seed)
    return environment.problem


def probe_instances(environment: Environment, config: RunConfig, step: int, excluded: set[str]) -> list[int]:
    """Return the seeds of `mi.probe` instances for a probe at a step, distinct within each block of PROBE_BLOCK.

    excluded   problems that are not used. If the task has too few others, excluded or repeated ones fill up a block
    """
    tries = TRIES * PROBE_BLOCK
    firsts = [probe_seed(config.seed, step, block, tries) for block in range(config.mi.probe // PROBE_BLOCK)]
    return [seed for first in firsts for seed in distinct_seeds(environment, first, PROBE_BLOCK, excluded)]


def count_key(split: str) -> str:
    """Return the option that sets the number of evaluation problems of this split."""
    return "eval.heldout" if split == "heldout" else "eval.instances"


def too_few(task: str, split: str, distinct: int, count: int) -> SpecError:
    """Return (do not raise) the error for a task with fewer problems than an evaluation of this split needs."""
    key = count_key(split)
    return SpecError(
        f"{task} has {counted(distinct, 'different problem')} for {split}, {count} are asked for",
        where=key,
        fix=f"{key}={distinct}, or more problems (task.env)",
    )


def chosen_instances(config: RunConfig, options: Mapping[str, Any] | None = None) -> FixedInstances:
    """Return the instances that `plat eval` asks for.

    options: split (validation | heldout, default heldout); instances, a whole number from 1 (default: as many as in the
    run, or `eval.instances` if `eval.heldout` is 0). Raises SpecError for another option, a wrong value, or too few
    problems.
    """
    options = dict(options or {})
    for name in options.keys() - {"split", "instances"}:
        raise SpecError(
            f"the evaluation has no option {name!r}",
            fix="split, instances, or a key of the run's config such as eval.temperature",
        )
    split = str(options.get("split", "heldout"))
    if split not in SPLITS:
        raise SpecError(f"there is no split {split!r}", where="split", fix=f"one of: {', '.join(SPLITS)}")
    default = config.eval.heldout if split == "heldout" else config.eval.instances
    count = options.get("instances", default or config.eval.instances)
    if type(count) is not int or count < 1:
        raise SpecError(f"{count!r} instances cannot be played", where="instances", fix="a whole number from 1")
    return FixedInstances(config, split, count)
