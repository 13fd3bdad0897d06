"""Enumerate the orders of a permutation test: all of them up to `DRAWN`, else `DRAWN` drawn with a seed.

The observed order is always included, so a p-value is never zero.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import permutations
from math import factorial

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
