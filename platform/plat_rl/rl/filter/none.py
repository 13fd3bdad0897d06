"""No filter: every prompt is kept."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule


@rule()
def none(ranking: Ranking) -> Part:
    """Keep everything."""
    return Part(0, ranking.order.size)
