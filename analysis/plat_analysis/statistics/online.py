"""Divide an error among judgements that follow each other without a known end: a study.

LORD++ (Ramdas, Yang, Wainwright and Jordan 2017; `online_fdr`) gives each judgement a level before its first run. If
judgements are independent of each other, as on fresh seeds, at most the share `RATE` of those that are called *better*
is not, in expectation. A judgement that finds something raises the levels after it.
"""

from __future__ import annotations

from collections.abc import Sequence

RATE = 0.05  # promised share of false ones among those called better (false discovery rate)
WEALTH = RATE / 2  # of it, what judgements have before the first discovery


def next_level(found: Sequence[bool]) -> float:
    """Return the one-sided error of the judgement after these, in (0, RATE).

    Args:
        found: for each earlier judgement, in the order in which they began, True if it was called better. One that is
            not decided yet counts as False.
    """
    from online_fdr.p_values import LordPlusPlus

    rule = LordPlusPlus(RATE, WEALTH)
    for is_better in found:
        rule.test_one(0.0 if is_better else 1.0)
    rule.test_one(1.0)
    level = rule.last_test_level
    assert level is not None
    return float(level)
