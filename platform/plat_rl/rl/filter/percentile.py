"""A band of the ranking (Table 6)."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule


@rule()
def percentile(ranking: Ranking, *, low: float, high: float) -> Part:
    """Keep positions round(low * N) to round(high * N) of the ranking of N candidates, at least one."""
    count = ranking.order.size
    start = min(round(low * count), count - 1)
    return Part(start, max(round(high * count), start + 1))
