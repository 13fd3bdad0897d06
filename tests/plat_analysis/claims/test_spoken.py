"""A verdict says which change its signed number is, in words and briefly."""

from __future__ import annotations

import pytest

from plat_analysis.claims.decided import MOST_IN_ALL, brief, gain
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import ChangeOptions


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("GRPO +2.5 [+1.4, +3.6]; open: PPO", "Top-p minus no filter: GRPO +2.5 [+1.4, +3.6]; open: PPO"),
        (
            "a 5-point gain excluded: GRPO −0.2 [−1.2, +1.6]",
            "a 5-point gain excluded, Top-p minus no filter: GRPO −0.2 [−1.2, +1.6]",
        ),
        ("a 5-point gain excluded in 3 of 3", "a 5-point gain excluded in 3 of 3"),  # there is no number
        ("filter = top_p against none +2.0 [+1.0, +3.0]", "filter = top_p against none +2.0 [+1.0, +3.0]"),
        ("in 2 of 2", "in 2 of 2"),
    ],
)
def test_the_two_sides_stand_before_the_number(said, spoken):
    assert ChangeOptions().spoken(Verdict("open", deciding=said)).deciding == spoken


def test_the_other_direction_is_named():
    change = ChangeOptions(pair="noise", baseline="noise", treatment="no noise")
    assert change.spoken(Verdict("open", deciding="PPO +2.5 [−3.6, +8.6]")).deciding.startswith("no noise minus noise:")


def test_rows_of_several_axes_are_named_by_what_differs():
    change = ChangeOptions(rows=["algorithm.entropy_coef", "algorithm.kl_coef"])
    assert change.between("0.01 · 0", "0 · 0") == "entropy coefficient 0.01 against 0"
    assert change.between("0.01 · 0.1", "0 · 0") == "entropy coefficient 0.01 against 0 · KL coefficient 0.1 against 0"
    assert ChangeOptions(rows="algorithm").between("grpo", "ppo") == "grpo against ppo"
    assert ChangeOptions().between("a · b", "c") == "a · b against c"
    verdict = Verdict("open", deciding="0.01 · 0 over 0 · 0 −6.6 [−16.0, +2.7]")
    names = {"0.01 · 0 over 0 · 0": change.between("0.01 · 0", "0 · 0")}
    assert change.spoken(verdict, names).deciding == (
        "Top-p minus no filter: entropy coefficient 0.01 against 0 −6.6 [−16.0, +2.7]"
    )


def test_a_gain_has_its_unit():
    assert (gain(5.0, " points"), gain(0.3, ""), gain(2.0, " s")) == (
        "a 5-point gain",
        "a gain of 0.3",
        "a gain of 2 s",
    )


def test_long_lists_of_rows_become_numbers_the_longest_first():
    rows = [f"Sokoban {name}" for name in "abcd"]
    lines = {row: f"{row} +1.0 [+0.5, +1.5], p .001 (t)" for row in rows}
    said = brief({"above": rows[:1], "excluded": rows[1:3], "open": rows[3:]}, lines, "above", in_part=True)
    assert said == "Sokoban a +1.0 [+0.5, +1.5]; excluded: Sokoban b and Sokoban c; open: Sokoban d"
    assert len(said.split()) == MOST_IN_ALL
    longer = {"above": rows[:1], "shown to be excluded": rows[1:3], "open": rows[3:]}
    said = brief(longer, lines, "above", in_part=True)
    assert said == "Sokoban a +1.0 [+0.5, +1.5]; shown to be excluded in 2; open: Sokoban d"
