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
