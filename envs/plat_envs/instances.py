"""Which instance a (split, seed) stands for.

Splits are disjoint by construction: the hash of an instance's *ground* (what stays the same while it is played: a map
or a layout without the player's position) decides which split it belongs to, and a seed draws until it meets an
instance of its own split. So no position that can be reached in one split can be reached in another.

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
from plat_envs.errors import BadEnvironment, check_choice

SPLITS = ("base", "train", "validation", "heldout")
_BUCKETS = ("base",) * 4 + ("train",) * 4 + ("validation", "heldout")
_MAX_DRAWS = 100_000
TRIES = 50  # seeds tried for each distinct instance that is wanted

Instance = TypeVar("Instance")
Candidate: TypeAlias = tuple[str, Callable[[], Instance | None]] | None


def split_of(ground: str) -> str:
    """The split an instance belongs to, from its ground alone."""
    return _BUCKETS[int.from_bytes(blake2b(ground.encode(), digest_size=4).digest()) % len(_BUCKETS)]


def source_split(split: str, shared_pool: bool) -> str:
    """The split whose instances are drawn: with a shared pool (as released) validation draws training instances."""
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
    """The instance of (split, seed): the first of its split among endless `candidates(rng)`.

    A candidate is a pair of its ground and a function that makes the instance. The function is called only where the
    ground is of the right split, and returns None where the instance is not usable. A candidate may also be None, where
    a draw gave nothing. `assign` says which split a ground belongs to.
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
        mend="the task's options leave too few instances",
    )


def distinct_seeds(environment: Environment, first: int, count: int, excluded: Collection[str] = ()) -> list[int]:
    """The first `count` instance seeds from `first` upward whose problems differ and are not in `excluded`.

    Where the task has too few such instances, the list is filled up with the seeds from `first` upward as they come.
    """
    seen = set(excluded)
    seeds: list[int] = []
    for seed in _tries(first, count):
        environment.reset(seed)
        if environment.problem not in seen:
            seen.add(environment.problem)
            seeds.append(seed)
            if len(seeds) == count:
                return seeds
    return [*seeds, *range(first, first + count - len(seeds))]


def evaluation_seeds(environment: Environment, eval_seed: int, count: int) -> list[int]:
    """The instance seeds of a fixed evaluation set: the first `count` distinct problems of the environment's split.

    Of two counts the smaller set is the beginning of the larger one.
    """
    return distinct_seeds(environment, _first_seed(eval_seed), count)


def evaluation_tries(eval_seed: int, count: int) -> range:
    """The instance seeds among which `evaluation_seeds` looks for `count` distinct problems, in its order."""
    return _tries(_first_seed(eval_seed), count)


def _first_seed(eval_seed: int) -> int:
    return eval_seed * 100_000


def _tries(first: int, count: int) -> range:
    return range(first, first + TRIES * count)
