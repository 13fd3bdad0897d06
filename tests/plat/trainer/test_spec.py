"""Combinations that cannot run are refused before anything runs, and say which key to change."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plat.errors import SpecError
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.run_config import RunConfig

validate = EmbeddedTrainer().validate


@pytest.mark.parametrize(
    "block, changes, key",
    [
        ("filter", {"rule": "percentile", "low": 0.9, "high": 0.1}, "filter.low"),
        ("filter", {"rule": "top_p", "value": 1.5}, "filter.value"),
        ("filter", {"rule": "within_group", "value": 2.0}, "filter.value"),
        ("filter", {"rule": "random", "value": 1.1}, "filter.value"),
        ("filter", {"rule": "min_p", "value": 0.1, "kept": "as_top_p"}, "filter.kept"),
        ("filter", {"rule": "none", "kept": "as_top_p"}, "filter.kept"),
        ("filter", {"rule": "top_k", "metric": "length", "kept": "as_top_p"}, "filter.include_zero"),
        ("train", {"rendering": "chat"}, "train.rendering"),
        ("train", {"mini_batches": 1000}, "train.mini_batches"),
    ],
)
def test_a_combination_that_cannot_run_names_its_key(block: str, changes: dict[str, object], key: str) -> None:
    config = RunConfig()
    setattr(config, block, replace(getattr(config, block), **changes))
    with pytest.raises(SpecError) as error:
        validate(config)
    assert error.value.where == key and error.value.fix


def test_the_default_and_a_count_above_one_are_accepted() -> None:
    config = RunConfig()
    assert validate(config) is config
    config.filter = replace(config.filter, rule="top_k_abs", value=4)
    validate(config)


def test_as_many_prompts_as_top_p_needs_a_spread_whatever_the_metric() -> None:
    config = RunConfig()
    config.filter = replace(config.filter, rule="random", metric="length", kept="as_top_p", include_zero=True)
    validate(config)
    config.train = replace(config.train, group_size=1, mini_batches=1)
    with pytest.raises(SpecError) as error:
        validate(config)
    assert error.value.where == "train.group_size"
