"""The toy paper's only kind of claim: one policy ends above another by some points."""

from __future__ import annotations

from typing import Any

from plat_analysis.claims.engine import Verdict
from toy_paper.report import final_success


def ends_above(frames: Any, experiment: Any, *, better: str, worse: str, points: float = 0.0) -> Verdict:
    """Reproduced when the mean over seeds of `better` is above that of `worse` by at least `points`."""
    successes = final_success(frames, experiment)
    if not successes.get(better) or not successes.get(worse):
        return Verdict("not_enough_data", detail=f"no result for {better if not successes.get(better) else worse}")
    means = {policy: sum(successes[policy].values()) / len(successes[policy]) for policy in (better, worse)}
    gap = means[better] - means[worse]
    return Verdict(
        "shown" if gap >= points else "shown_in_part" if gap > 0 else "contradicted",
        value=gap,
        detail=f"{better} {means[better]:.1f}, {worse} {means[worse]:.1f}: {gap:+.1f} points",
        run_ids=(*successes[better], *successes[worse]),
    )


ENDS_ABOVE = ends_above
