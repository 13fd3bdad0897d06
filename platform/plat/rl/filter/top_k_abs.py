"""Top-k with a number of prompts instead of a share."""

from __future__ import annotations

from plat.rl.filter.rule import Part, Ranking, rule


@rule()
def top_k_abs(ranking: Ranking, *, value: float) -> Part:
    """Keep int(value) prompts, at least one."""
    return Part(0, min(max(int(value), 1), ranking.order.size))
