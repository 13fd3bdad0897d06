"""Why a verdict is what it is, in one line."""

from __future__ import annotations

from plat_analysis.artifact import p_value
from plat_analysis.claims.engine import Verdict


def reason(verdict: Verdict) -> str:
    """`above zero in 1 of 9; p .0010 over all its rows`; before it which part of the matrix was judged, if not all."""
    part = next((line for line in verdict.lines[:1] if line.startswith("only: ") and line != verdict.deciding), "")
    p = "" if verdict.p is None else f"p {p_value(verdict.p)} over all its rows"
    return "; ".join(filter(None, [part, verdict.deciding, p]))
