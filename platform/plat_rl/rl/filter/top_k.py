"""Top-k: a fixed share of the prompts of a batch."""

from __future__ import annotations

import math

from plat_rl.rl.filter.rule import Part, Ranking, rule


def share_of(value: float, prompts: int) -> int:
    """Return floor(value * prompts), where 0.29 of 100 is 29 although 0.29 * 100 is a bit less in floating point."""
    return math.floor(value * prompts + 1e-9)


@rule(counts=True, share=True)
def top_k(ranking: Ranking, *, value: float, at_least_one: bool) -> Part:
    """Keep the first floor(value * P) candidates of a batch of P prompts (paper: floor(rho N)), or all if fewer.

    If that is 0, keep one with `at_least_one`, else none.
    """
    k = max(share_of(value, ranking.prompts), int(at_least_one))
    return Part(0, min(k, ranking.order.size), None if k else "count_is_zero")
