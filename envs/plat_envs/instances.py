"""The instance of a (split, seed).

The hash of an instance's *ground* (the map or layout without the player's position, which play does not change) decides
its split. A seed draws until it meets an instance of its split. So no position can be reached in two splits.

40 % of the grounds are for the supervised training of base models (`base`), 40 % for reinforcement learning (`train`),
10 % for validation and 10 % held out. Real data train no base model: there, rows of `base` belong to `train`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator
from hashlib import blake2b
from itertools import islice
from typing import TypeAlias, TypeVar

from plat_envs.api import Environment
from plat_envs.environment_errors import BadEnvironment, check_choice

SPLITS = ("base", "train", "validation", "heldout")
SPLIT_SHARES = ("base",) * 4 + ("train",) * 4 + ("validation", "heldout")
_MAX_DRAWS = 100_000
TRIES = 50  # seeds tried for each distinct instance that is wanted
EVALUATION_SEEDS = 100_000  # instance seeds of each `eval.seed`

Instance = TypeVar("Instance")
Candidate: TypeAlias = tuple[str, Callable[[], Instance | None]] | None


def ready(ground: str, instance: Instance) -> Candidate[Instance]:
    """Return the candidate of an instance that is made already."""
    return ground, lambda: instance


def split_of(ground: str) -> str:
    """Return the split of an instance from its ground: its map or layout without the player's position."""
    return SPLIT_SHARES[int.from_bytes(blake2b(ground.encode(), digest_size=4).digest()) % len(SPLIT_SHARES)]


def source_split(split: str, shared_pool: bool) -> str:
    """Return "train" for "validation" with a shared pool, else `split` itself. BadEnvironment for an unknown split."""
    check_choice("split", split, SPLITS)
    return "train" if shared_pool and split == "validation" else split


def draw(
    task: str,
    split: str,
    seed: int,
    shared_pool: bool,
    candidates: Callable[[random.Random], Iterator[Candidate[Instance]]],
    assign: Callable[[str], str] = split_of,
) -> Instance:
    """Return the instance of (split, seed): the first of its split among endless `candidates(rng)`.

    candidates   rng -> pairs of a ground and a function that makes the instance, or returns None if it is not usable.
                 The function is called only for grounds of the split. None in place of a pair: the draw failed
    assign       ground -> split

    Raises BadEnvironment for an unknown split, or if there is none in 100,000 draws.
    """
    rng = random.Random(f"{task}/{split}/{seed}")
    wanted = source_split(split, shared_pool)
    for drawn in islice(candidates(rng), _MAX_DRAWS):
        if drawn is not None and assign(drawn[0]) == wanted:
            instance = drawn[1]()
            if instance is not None:
                return instance
    raise BadEnvironment(
        f"no {task} instance for split {split!r} in {_MAX_DRAWS} draws",
        fix="the task's options leave too few instances",
    )


def distinct_seeds(environment: Environment, first: int, count: int, excluded: Collection[str] = ()) -> list[int]:
    """Return the first `count` instance seeds from `first` on whose problems differ and are not in `excluded`.

    Resets the environment to each seed that it tries, TRIES * count at most. If these are too few, the list is filled
    up with the seeds from `first` on: it then has problems twice, or excluded ones.
    """
    seen = set(excluded)
    seeds: list[int] = []
    for seed in range(first, first + TRIES * count):
        environment.reset(seed)
        if environment.problem not in seen:
            seen.add(environment.problem)
            seeds.append(seed)
            if len(seeds) == count:
                return seeds
    return [*seeds, *range(first, first + count - len(seeds))]


def evaluation_seeds(environment: Environment, eval_seed: int, count: int) -> list[int]:
    """Return the instance seeds of a fixed evaluation set: the first `count` distinct problems of the split.

    A smaller set is the beginning of a larger one. If the task has too few, `distinct_seeds` fills the list up.
    """
    return distinct_seeds(environment, eval_seed * EVALUATION_SEEDS, count)


def evaluation_tries(eval_seed: int, count: int) -> range:
    """Return all seeds that `evaluation_seeds` may try, in order; it stops as soon as it has `count` problems."""
    first = eval_seed * EVALUATION_SEEDS
    return range(first, first + TRIES * count)
