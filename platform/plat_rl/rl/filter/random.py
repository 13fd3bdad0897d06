"""Prompts at random, whatever their scores: the control of every other rule."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule
from plat_rl.rl.filter.top_k import share_of


@rule(draws=True, counts=True, share=True)
def random(ranking: Ranking, *, value: float) -> Part:
    """Keep floor(value * P) candidates, at least one: those with the largest draws (`keep: smallest`: the smallest)."""
    return Part(0, min(max(share_of(value, ranking.prompts), 1), ranking.order.size))
