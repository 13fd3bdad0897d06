"""Keys that are said to have no effect have none."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.rl.config import AlgorithmConfig, FilterConfig
from plat.rl.filter import select, select_within_group
from plat.rl.scores import prompt_scores
from plat.trainer.validation import idle_keys

RULES = ("none", "top_p", "top_p_softmax", "top_k", "top_k_abs", "min_p", "percentile", "random", "within_group")
OTHERS = {
    "metric": "entropy",
    "ddof": 0,
    "value": 0.4,
    "low": 0.3,
    "high": 0.6,
    "keep": "smallest",
    "include_zero": True,
    "at_least_one": False,
    "eps": 0.5,
    "on_empty": "keep_all",
    "within_group_rounding": "round",
}


def kept(config, seed):
    """What a filter keeps of a random batch of 8 prompts with 5 trajectories each."""
    rng = np.random.default_rng(seed)
    rewards = rng.integers(0, 3, size=(8, 5)).astype(float)
    scores = prompt_scores(rewards, rng.random((8, 5)), rng.random((8, 5)), config)
    count = 3 if config.kept == "as_top_p" else None
    chosen = select(scores, config, draws=rng.random(8), count=count).kept.tolist()
    within = config.rule == "within_group"
    return chosen, select_within_group(rewards, config.value, config.within_group_rounding).tolist() if within else None


@pytest.mark.parametrize("as_many", ["own", "as_top_p"])
@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 10_000))
def test_another_value_of_an_idle_key_keeps_the_same(rule, as_many, seed):
    config = FilterConfig(rule=rule, value=0.7, kept=as_many if rule in ("top_k", "random") else "own")
    idle = idle_keys({"algorithm": asdict(AlgorithmConfig()), "filter": asdict(config)})
    names = [key.removeprefix("filter.") for key in idle if key.startswith("filter.")]
    assert rule == "top_p" or "eps" in names
    for name in names:
        if name in OTHERS:
            assert kept(replace(config, **{name: OTHERS[name]}), seed) == kept(config, seed), name


def test_what_a_rule_uses_is_not_idle():
    used = {"top_p": ("value", "eps", "metric"), "percentile": ("low", "high"), "top_k": ("at_least_one", "value")}
    for rule, names in used.items():
        idle = idle_keys({"algorithm": asdict(AlgorithmConfig()), "filter": asdict(FilterConfig(rule=rule))})
        assert not {f"filter.{name}" for name in names} & idle.keys()
