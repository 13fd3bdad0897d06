"""Min-p: the prompts whose score is close to the extreme one."""

from __future__ import annotations

from plat_rl.rl.filter.rule import Part, Ranking, rule

SLACK = 1e-10  # of the threshold (released code)


@rule(share=True)
def min_p(ranking: Ranking, *, value: float) -> Part:
    """Keep scores >= value * max; with `keep: smallest`, scores <= min / value.

    If value is below 1 and that max (or min) is negative, nothing is kept, with the reason `target_unreachable`.
    """
    scores = ranking.scores
    # value * score <= min: score <= min / value without the division
    near = scores >= value * scores.max() - SLACK if ranking.sign > 0 else value * scores <= scores.min() + SLACK
    kept = int(near.sum())  # a prefix of the ranking, because the condition is monotone in the score
    return Part(0, kept, None if kept else "target_unreachable")
