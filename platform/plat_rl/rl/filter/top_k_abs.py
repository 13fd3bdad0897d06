"""Top-k with a number of prompts instead of a share."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule


@rule()
def top_k_abs(ranking: Ranking, *, value: float) -> Part:
    """Keep the first int(value) candidates, at least one, or all if there are fewer."""
    return Part(0, min(max(int(value), 1), ranking.order.size))
