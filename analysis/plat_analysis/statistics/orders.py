"""Enumerate the orders of a permutation test: all of them up to `DRAWN`, else `DRAWN` drawn with a seed.

The observed order is always included, so a p-value is never zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray

DRAWN = 20_000


@lru_cache(maxsize=32)
def orders(count: int, seed: int = 0) -> NDArray[np.int64]:
    """Return orders of `count` items [order, item] as indices; the first is 0, 1, 2, ...

    They are all orders if there are at most `DRAWN`, else the first and `DRAWN` random ones. Calls share the array: do
    not change it.
    """
    if factorial(count) <= DRAWN:
        return np.array(list(permutations(range(count))), np.int64)
    drawn = np.random.default_rng([seed, count]).permuted(np.tile(np.arange(count), (DRAWN, 1)), axis=1)
    return np.vstack([np.arange(count), drawn])


Families = Sequence[Hashable]  # the family of each setting


def orders_within(families: Families, seed: int = 0) -> NDArray[np.int64]:
    """Return orders of items [order, item] that move an item within its family only; the first is 0, 1, 2, ...

    They are all such orders if there are at most `DRAWN`, else the first and `DRAWN` random ones. Do not change the
    array: calls may share it.
    """
    members = members_of(families)
    if len(members) == 1:
        return orders(len(families), seed)
    own = [np.array(places)[orders(len(places), seed + number)] for number, places in enumerate(members)]
    if _count(members) <= DRAWN:
        chosen = np.array(list(product(*(range(len(each)) for each in own)))).T
    else:
        random = np.random.default_rng([seed, len(families), len(members)])
        chosen = np.array([random.integers(len(each), size=DRAWN + 1) for each in own])
        chosen[:, 0] = 0
    found = np.empty((chosen.shape[1], len(families)), np.int64)
    for places, each, which in zip(members, own, chosen, strict=True):
        found[:, places] = each[which]
    return found


def smallest_p(families: Families) -> float:
    """Return the smallest p-value that a permutation test within these families can have."""
    count = _count(members_of(families))
    return 1 / (count if count <= DRAWN else DRAWN + 1)


def members_of(families: Families) -> list[list[int]]:
    """Return the places of each family's settings."""
    found: dict[Hashable, list[int]] = {}
    for place, family in enumerate(families):
        found.setdefault(family, []).append(place)
    return list(found.values())


def _count(members: Sequence[Sequence[int]]) -> int:
    return prod(factorial(len(places)) for places in members)


def column_orders(products: NDArray[np.float64], seed: int = 0) -> NDArray[np.float64]:
    """Return the sums over group and i of products[group, i, order[i]], one for each choice of an order per group.

    The sums are a flat array, the one with the observed orders first. The others are those of all choices if these are
    at most DRAWN, else of DRAWN random ones.
    """
    groups, count, _ = products.shape
    rows = orders(count, seed)
    sums = [np.asarray(product[np.arange(count), rows].sum(axis=1), np.float64) for product in products]
    if factorial(count) ** groups <= DRAWN:
        every = sums[0]
        for more in sums[1:]:
            every = np.add.outer(every, more).ravel()
        return every
    random = np.random.default_rng([seed, groups, count])
    drawn = sum(of_group[random.integers(len(rows), size=DRAWN)] for of_group in sums)
    observed = sum(of_group[0] for of_group in sums)
    return np.append(observed, drawn).astype(np.float64)
