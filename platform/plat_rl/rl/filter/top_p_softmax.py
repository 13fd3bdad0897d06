"""Top-p over softmax(scores), as in the released scripts of Table 4."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule
from plat_rl.rl.filter.top_p import ROUNDING


@rule(share=True)
def top_p_softmax(ranking: Ranking, *, value: float) -> Part:
    """Keep the smallest prefix whose softmax weights add up to `value`: at least one prompt, and all for 1."""
    import numpy as np

    signed = ranking.sign * ranking.scores
    if value >= 1.0:
        return Part(0, signed.size)
    weights = np.exp(signed - signed.max())[ranking.order]
    reached = np.searchsorted(np.cumsum(weights / weights.sum()), value - ROUNDING)
    return Part(0, min(int(reached) + 1, signed.size))
