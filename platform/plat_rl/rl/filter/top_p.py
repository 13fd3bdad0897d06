"""Top-p: the fewest prompts that hold a share of the score mass (section 4, Algorithm 1)."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule

ROUNDING = 1e-12  # of the whole mass: two masses that differ by less are equal


@rule(share=True)
def top_p(ranking: Ranking, *, value: float, eps: float) -> Part:
    """Keep the smallest prefix whose scores add up to `value * sum(scores) - eps`.

    The prefix ends before the first score <= 0. `value >= 1` keeps every candidate. Otherwise a target <= 0 keeps
    nothing, and so does one that the prefix does not reach. Differences within the rounding error do not count.
    """
    import numpy as np

    scores, ranked = ranking.scores, ranking.scores[ranking.order]
    if value >= 1.0:
        return Part(0, scores.size)
    target, rounding = value * scores.sum() - eps, ROUNDING * float(np.abs(scores).sum())
    if target <= rounding:
        return Part(0, 0, "target_not_positive")
    stops = np.flatnonzero(ranked <= 0)
    usable = int(stops[0]) if stops.size else ranked.size
    reached = np.flatnonzero(np.cumsum(ranked[:usable]) >= target - rounding)
    return Part(0, int(reached[0]) + 1) if reached.size else Part(0, 0, "target_unreachable")
