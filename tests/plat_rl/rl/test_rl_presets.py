"""The named algorithms and filters of `plat_rl.conf` are what the paper and its released code say they are."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
import yaml

from plat_rl.rl.config import AlgorithmConfig, FilterConfig
from plat_rl.rl.filter.selection import select
from plat_rl.rl.statistics import prompt_scores


def preset(group, name):
    text = files("plat_rl").joinpath("conf", group, f"{name}.yaml").read_text()
    return {"algorithm": AlgorithmConfig, "filter": FilterConfig}[group](**yaml.safe_load(text))


def test_dapo_as_released_is_ppo_by_another_name():
    ppo, dapo = (vars(preset("algorithm", name)) | {"name": ""} for name in ("ppo", "dapo_released"))
    assert dapo == ppo


def test_dapo_proper_samples_dynamically_with_a_bound():
    dapo = preset("algorithm", "dapo")
    assert (dapo.dynamic_sampling, dapo.loss_agg, dapo.clip_low, dapo.clip_high) == (True, "token-mean", 0.2, 0.28)
    assert dapo.max_refills > 0


def test_group_algorithms():
    grpo, drgrpo = preset("algorithm", "grpo"), preset("algorithm", "drgrpo")
    assert (grpo.advantage, grpo.norm_by_std, grpo.loss_agg) == ("grpo", True, "seq-mean-token-mean")
    assert (drgrpo.advantage, drgrpo.norm_by_std, drgrpo.loss_agg) == ("grpo", False, "seq-mean-token-sum")


@pytest.mark.parametrize(
    ("returns", "changes", "kept"),
    [
        ([[-3, 3], [-2, 2], [-1, 1]], {"value": 0.8, "eps": 0.0}, [0, 1]),  # 18 and 8 of 28
        ([[-1, 1], [-1, 1]], {"value": 0.5, "eps": 0.0}, [0]),  # of equal ones the first
        ([[1, 1], [2, 2]], {}, []),
        ([[-3, 3], [-2, 2], [-1, 1]], {"rule": "top_k_abs", "value": 2}, [0, 1]),
        ([[-1, 1], [0, 0], [1, 1]], {"rule": "top_k_abs", "value": 2}, [0]),
        ([[-1, 1], [0, 0], [1, 1]], {"rule": "top_k_abs", "value": 2, "include_zero": True}, [0, 1]),
        ([[0, 0.1]], {}, []),  # .005 of variance: nothing is selected below the slack
        ([[-3, 3], [-1, 1]], {"value": 0.7, "eps": 0.0}, [0]),
    ],
)
def test_the_authors_filter_keeps_what_their_own_tests_say(returns, changes, kept):
    """The cases of the tests that they proposed to verl (#7894) and SkyRL (#2217).

    One more has `include_zero` and no variance at all: they keep all prompts, plat and the released code none.
    """
    config = replace(preset("filter", "authors"), **changes)
    array = np.asarray(returns, dtype=float)
    scores = prompt_scores(array, np.zeros_like(array), np.ones_like(array), config, np.zeros_like(array))
    assert select(scores, config).kept.tolist() == kept and config.scale == "none"


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("none", [0, 1, 2, 3]),
        ("top_p", [0, 2]),  # the worked example: 9 and 5 of 9, 5, 1 and a zero
        ("authors", [0, 2]),
        ("top_p_std", [0, 2]),
        ("top_p_softmax", [2]),  # e^9 outweighs the rest
        ("top_k", [2]),
        ("bottom_k", [0, 3]),
        ("min_p", [0, 2, 3]),
        ("percentile", [2]),
        ("random", [0, 3]),
        ("length", [0, 2]),
        ("within_group", [0, 1, 2, 3]),
        ("random_within_group", [0, 1, 2, 3]),
        ("drop_failed", [0, 2, 3]),
        ("drop_solved", [0, 2, 3]),
        ("mixed", [0, 2, 3]),
    ],
)
def test_what_each_filter_keeps(name, kept):
    config = preset("filter", name)
    assert select([5.0, 0.0, 9.0, 1.0], config, draws=[0.7, 0.1, 0.2, 0.8]).kept.tolist() == kept
