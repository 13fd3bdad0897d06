"""Which verdicts stand when the error is held over many claims at once.

Each claim is judged at 2.5 %. If none of forty claims is true, one is therefore still expected to be called reproduced
or partial. Holm's procedure over all of them keeps the probability of even one such error at 2.5 %.
"""

from __future__ import annotations

from collections.abc import Sequence

from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.rows import LEVEL
from plat_analysis.statistics.families import holm


def judged(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The verdicts that count among the comparisons: those with a p-value, and those that had enough data for one."""
    return [verdict for verdict in verdicts if verdict.p is not None or verdict.status == "undecided"]


def together(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """The decided verdicts that stand with the error held over all claims that had enough data.

    A decided verdict whose check gives no p-value stands for itself, and does not count among them.
    """
    counted = judged(verdicts)
    adjusted = holm([1.0 if verdict.p is None else verdict.p for verdict in counted])
    return [verdict for verdict, p in zip(counted, adjusted, strict=True) if p is not None and p <= LEVEL]


def summary(verdicts: Sequence[Verdict]) -> str:
    """`24 claims had enough data, each judged at 2.5 %; ... 9 stand: a, b, c`"""
    counted = judged(verdicts)
    decided, standing = [v for v in counted if v.status != "undecided"], together(verdicts)
    names = ", ".join(f"`{verdict.id}`" for verdict in standing) or "none"
    return (
        f"{len(counted)} claims had enough data, each judged at {100 * LEVEL:g} %: if none were true, "
        f"{LEVEL * len(counted):.1f} would be called reproduced or partial by chance. {len(decided)} are decided, and "
        f"{len(standing)} of these stand with the error held over all {len(counted)} (Holm): {names}."
    )
