"""One error for many claims."""

from __future__ import annotations

import numpy as np
import pytest

from plat_analysis.claims.decided import LEVEL, RowEvidence, decide_rows
from plat_analysis.claims.engine import Verdict
from plat_analysis.report.verdicts import summary, together
from plat_analysis.statistics.replicates import Replicate, over_replicates


def verdicts(*p_values):
    """Decided claims of these p-values, open ones where there is none."""
    return [Verdict("open" if p is None else "shown_in_part", id=f"c{i}", p=p) for i, p in enumerate(p_values)]


def test_holm_over_all_claims():
    claims = verdicts(0.001, 0.006, None, 0.02)
    assert [verdict.id for verdict in together(claims)] == ["c0", "c1"]  # .004, .018 and .04
    said = summary(claims)
    assert "4 claims had enough data" in said and "3 are decided. 2 of these remain decided" in said


def test_claims_without_enough_data_are_no_part_of_the_family():
    claims = [*verdicts(0.02), *(Verdict("not_enough_data", id=f"n{i}") for i in range(9))]
    assert [verdict.id for verdict in together(claims)] == ["c0"]


@pytest.mark.long
def test_claims_of_which_none_is_true_seldom_stand():
    rng = np.random.default_rng(5)

    def claim(index):
        rows = {}
        for row in range(2):
            values = {Replicate(None, seed): float(x) for seed, x in enumerate(rng.normal(0, 3, 6))}
            rows[str(row)] = RowEvidence(over_replicates(values, wanted=6))
        decision = decide_rows(rows)
        held = decision.status in ("shown", "shown_in_part")  # a true null may be called too small for 5 points
        return Verdict(decision.status, id=str(index), p=decision.p if held else 1.0)

    wrong = sum(bool(together([claim(index) for index in range(20)])) for _ in range(150))
    assert wrong / 150 <= LEVEL + 2.6 * (LEVEL / 150) ** 0.5
