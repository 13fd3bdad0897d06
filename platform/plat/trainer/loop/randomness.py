"""Where the random numbers of a run come from.

No generator lives on between two uses. Each use makes its own from a key that names the purpose and says what the
numbers depend on, so that a resumed run needs no generator state to be bit-identical:

    purpose, then                   what is drawn
    "training", seed, step, refill  the tokens of a training rollout
    "reward", seed, step, refill    the noise on the returns of a training rollout; on those of
                                    another batch: "reward" and that batch's own key
    "evaluation", eval.seed, split  the tokens of an evaluation on fixed instances: the same for every run and step
    "swap", eval.seed, split, turn  who gets whose reasoning, with `eval.reasoning_swap`
    "probe", seed, step             the tokens of a reasoning probe
    "gradient", seed, step          the tokens of a gradient probe
    "precheck", seed                the tokens of the batch that the base model plays, with `train.precheck`
    "halves", seed, step            how its trajectories are halved and its returns permuted, with `gradient.halves`
    "untrained", seed               a model that was never trained, and the tokens it says
    "scoring", seed, step           which reasonings of a batch are cross-scored
    "selecting", seed, step         which prompts the filter `random` keeps
    "updating", seed, step          how a batch is shared out among the mini-batches

Instances come from whole-number seeds, which the environments turn into instances themselves: `training_seeds`,
`probe_seed`, `gradient_seeds` and `precheck_seeds` say which; those of evaluations are counted up from
eval.seed * 100,000.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

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
    """A generator that is a function of the key alone; different keys give independent streams."""
    text = "/".join(map(str, key))
    return np.random.default_rng(int.from_bytes(blake2b(text.encode(), digest_size=16).digest()))


def uniforms(key: Key, turn: int, trajectories: int, tokens: int) -> NDArray[np.float32]:
    """(trajectories, tokens) uniform numbers in [0, 1) for one turn of a rollout.

    Row n is a function of (key, turn, n, tokens) alone, whatever the number of trajectories: rows lie one after the
    other in the generator's sequence.
    """
    return generator(*key, turn).random((trajectories, tokens), dtype=np.float32)


def pair(a: int, b: int) -> int:
    """Cantor's pairing: a bijection between pairs of whole numbers >= 0 and whole numbers >= 0."""
    return (a + b) * (a + b + 1) // 2 + b


def training_seeds(seed: int, step: int, refill: int, prompts: int) -> range:
    """The instance seeds of the `prompts` (P) prompts of a training rollout, one after the other.

    No two of (seed, step, refill, prompt) share one, without a limit on any of them. Refill 0 is the first rollout of
    the step.
    """
    block = pair(pair(seed, step), refill)
    return range(block * prompts, (block + 1) * prompts)


def probe_seed(seed: int, step: int, block: int, tries: int) -> int:
    """Where a block of a probe starts to look for distinct instances; it may look at `tries` seeds."""
    return FIRST_PROBE_SEED + pair(pair(seed, step), block) * tries


def gradient_seeds(seed: int, step: int, prompts: int) -> range:
    """The instance seeds of a gradient probe with so many prompts; no two of (seed, step, prompt) share one."""
    first = FIRST_GRADIENT_SEED + pair(seed, step) * prompts
    return range(first, first + prompts)


def precheck_seeds(seed: int, prompts: int) -> range:
    """The instance seeds of the batch of `train.precheck`; no two of (seed, prompt) share one."""
    first = FIRST_PRECHECK_SEED + seed * prompts
    return range(first, first + prompts)
