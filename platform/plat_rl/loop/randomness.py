"""The random numbers of a run.

Each use makes a new generator from a key of its purpose and of everything that the numbers depend on. So a resumed run
is bit-identical without any generator state:

    purpose, then                   what is drawn
    "training", seed, step, refill  the tokens of a training rollout
    "reward", seed, step, refill    the noise on the returns of a training rollout. The noise of any other batch has the
                                    key "reward", followed by the key of that batch
    "evaluation", eval.seed, split  the tokens of an evaluation on fixed instances: the same for every run and step
    "swap", eval.seed, split, turn  which reasonings are swapped, with `eval.reasoning_swap`
    "probe", seed, step             the tokens of a reasoning probe
    "gradient", seed, step          the tokens of a gradient probe
    "precheck", seed                the tokens of the base model's batch with `train.precheck`
    "halves", seed, step            how the gradient probe's trajectories are halved and its returns permuted, with
                                    `gradient.halves`
    "untrained", seed               a model that was never trained, and its tokens
    "scoring", seed, step           which reasonings of a batch are cross-scored
    "selecting", seed, step         which prompts the filter `random` keeps
    "updating", seed, step          how a batch is divided into mini-batches

Environments make instances from whole-number seeds: those of `training_seeds`, `probe_seed`, `gradient_seeds` and
`precheck_seeds`; those of evaluations count up from eval.seed * 100,000.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.units import counted
from plat_envs.api import Environment
from plat_envs.instances import TRIES, distinct_seeds, evaluation_seeds
from plat_rl.environments import Sessions
from plat_rl.rl.config import PROBE_BLOCK
from plat_rl.run_config import RunConfig

TRAINING = "training"
REWARD = "reward"
EVALUATION = "evaluation"
SWAP = "swap"
PROBE = "probe"
GRADIENT = "gradient"
PRECHECK = "precheck"
HALVES = "halves"
UNTRAINED = "untrained"
SCORING = "scoring"
SELECTING = "selecting"
UPDATING = "updating"

Key = tuple[str | int, ...]
FIRST_PROBE_SEED = 10**15  # beyond the seeds of evaluations, which play instances of the same split
FIRST_GRADIENT_SEED = 10**15  # beyond those of a run's training instances, which are of the same split
FIRST_PRECHECK_SEED = 5 * 10**15  # beyond those of gradient probes


def generator(*key: str | int) -> np.random.Generator:
    """Return a generator that depends on the key, joined by `/`, alone. Different keys give independent streams."""
    text = "/".join(map(str, key))
    return np.random.default_rng(int.from_bytes(blake2b(text.encode(), digest_size=16).digest()))


def uniforms(key: Key, turn: int, trajectories: int, tokens: int) -> NDArray[np.float32]:
    """Return (trajectories, tokens) uniform numbers in [0, 1) for one turn of a rollout.

    Row n depends on (key, turn, n, tokens) alone, not on the number of trajectories: the rows follow each other in the
    generator's sequence.
    """
    return generator(*key, turn).random((trajectories, tokens), dtype=np.float32)


def pair(a: int, b: int) -> int:
    """Return (a + b)(a + b + 1) / 2 + b: Cantor's pairing, a bijection from pairs of whole numbers >= 0 to these."""
    return (a + b) * (a + b + 1) // 2 + b


def training_seeds(seed: int, step: int, refill: int, prompts: int) -> range:
    """Return the consecutive instance seeds of the `prompts` (P) prompts of a training rollout.

    No two of (seed, step, refill, prompt) share one, without a limit on any of them. Refill 0 is the first rollout of
    the step.
    """
    block = pair(pair(seed, step), refill)
    return range(block * prompts, (block + 1) * prompts)


def probe_seed(seed: int, step: int, block: int, tries: int) -> int:
    """Return the first seed that a block of a probe tries for distinct instances; it may try `tries` seeds."""
    return FIRST_PROBE_SEED + pair(pair(seed, step), block) * tries


def gradient_seeds(seed: int, step: int, prompts: int) -> range:
    """Return the instance seeds of a gradient probe; no two of (seed, step, prompt) share one."""
    first = FIRST_GRADIENT_SEED + pair(seed, step) * prompts
    return range(first, first + prompts)


def precheck_seeds(seed: int, prompts: int) -> range:
    """Return the instance seeds of the batch of `train.precheck`; no two of (seed, prompt) share one."""
    first = FIRST_PRECHECK_SEED + seed * prompts
    return range(first, first + prompts)


# The fixed instances that evaluations play: the same for every run, step and trainer.

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
