"""The readable part of a run's name."""

from __future__ import annotations

import pytest

from plat.spec.expansion.run import run_name


@pytest.mark.parametrize(
    ("value", "part"), [(0.9, "lr0.9"), (1e-05, "lr1e-05"), (0.0004128984196872436, "lr0.0004129"), (128, "lr128")]
)
def test_numbers_that_a_search_drew_are_short(value, part):
    assert run_name("sokoban", [("train.lr", value)], 0, "0123456789abcdef") == f"sokoban-{part}-s0-01234567"
