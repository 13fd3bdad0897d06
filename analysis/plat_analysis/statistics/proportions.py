"""Counts out of a number of trials: the exact interval of a share, and the exact test of two shares."""

from __future__ import annotations

from plat_analysis.statistics.intervals import LEVEL


def clopper_pearson(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a share, from 0 to 1 (Clopper and Pearson 1934). It covers at least as often as it says."""
    from scipy.special import betaincinv

    if not 0 <= hits <= trials or not trials:
        raise ValueError(f"{hits} of {trials} is no share")
    tail = (1 - level) / 2
    low = 0.0 if hits == 0 else float(betaincinv(hits, trials - hits + 1, tail))
    high = 1.0 if hits == trials else float(betaincinv(hits + 1, trials - hits, 1 - tail))
    return low, high


def fisher_exact(hits: int, trials: int, other_hits: int, other_trials: int) -> float:
    """Two-sided p-value of "both shares are the same" (Fisher's exact test, tables at most as likely as this one)."""
    from scipy.stats import fisher_exact as scipy_fisher

    table = [[hits, trials - hits], [other_hits, other_trials - other_hits]]
    return float(scipy_fisher(table).pvalue)
