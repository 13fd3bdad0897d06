"""The readable part of a run's name."""

from __future__ import annotations

import pytest

from plat.spec.expansion.run import run_name


@pytest.mark.parametrize(
    ("value", "part"), [(0.9, "lr0.9"), (1e-05, "lr1e-05"), (0.0004128984196872436, "lr0.0004129"), (128, "lr128")]
)
def test_numbers_that_a_search_drew_are_short(value, part):
    assert run_name("sokoban", [("train.lr", value)], 0, "0123456789abcdef") == f"{part}-s0-01234567"


def test_a_name_has_the_axes_of_the_file_in_its_order_or_else_the_label():
    axes = [("wd", 0.1), ("arm", "b"), ("seed", 3), ("filter.value", 0.9)]
    assert run_name("script", axes, 3, "0123456789abcdef") == "wd0.1-b-value0.9-s3-01234567"
    assert run_name("script", [("seed", 3)], 3, "0123456789abcdef") == "script-s3-01234567"
    assert len(run_name("x", [(f"a{i}", "word" * 5) for i in range(9)], 0, "0123456789abcdef")) <= 100
