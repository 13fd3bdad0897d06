"""Combinations that cannot run are refused before anything runs, and say which key to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plat.errors import SpecError
from plat.trainer.config import RunConfig
from plat.trainer.embedded.spec import validate


@pytest.mark.parametrize(
    "block, changes, key",
    [
        ("filter", {"rule": "percentile", "low": 0.9, "high": 0.1}, "filter.low"),
        ("filter", {"rule": "top_p", "value": 1.5}, "filter.value"),
        ("filter", {"rule": "within_group", "value": 2.0}, "filter.value"),
        ("train", {"rendering": "chat"}, "train.rendering"),
        ("train", {"mini_batches": 1000}, "train.mini_batches"),
    ],
)
def test_a_combination_that_cannot_run_names_its_key(block: str, changes: dict[str, object], key: str) -> None:
    config = RunConfig()
    setattr(config, block, replace(getattr(config, block), **changes))
    with pytest.raises(SpecError) as error:
        validate(config)
    assert error.value.where == key and error.value.mend


def test_the_default_and_a_count_above_one_are_accepted() -> None:
    config = RunConfig()
    assert validate(config) is config
    config.filter = replace(config.filter, rule="top_k_abs", value=4)
    validate(config)
