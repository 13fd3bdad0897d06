"""Keys that are said to have no effect have none."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.spec.expansion.experiment import build_run, config_object
from plat.trainer.finding import find_trainer
from plat_rl.rl.config import AlgorithmConfig, FilterConfig, GradientConfig, MIConfig
from plat_rl.rl.filter.rule import RULES, find_rule
from plat_rl.rl.filter.selection import select, select_within_group
from plat_rl.rl.statistics import prompt_scores
from plat_rl.validation import idle_keys

OFF = {"gradient": asdict(GradientConfig()), "mi": asdict(MIConfig())}
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
    if not find_rule(config.rule).within:
        return chosen, None
    chance = rng.random(rewards.shape) if config.rule == "random_within_group" else None
    return chosen, select_within_group(rewards, config, chance).tolist()


@pytest.mark.parametrize("as_many", ["own", "as_top_p"])
@pytest.mark.parametrize("rule", RULES)
@given(seed=st.integers(0, 10_000))
def test_another_value_of_an_idle_key_keeps_the_same(rule, as_many, seed):
    config = FilterConfig(rule=rule, value=0.7, kept=as_many if rule in ("top_k", "random") else "own")
    idle = idle_keys({"algorithm": asdict(AlgorithmConfig()), "filter": asdict(config), **OFF})
    names = [key.removeprefix("filter.") for key in idle if key.startswith("filter.")]
    assert rule == "top_p" or "eps" in names
    for name in names:
        if name in OTHERS:
            assert kept(replace(config, **{name: OTHERS[name]}), seed) == kept(config, seed), name


def test_what_a_rule_uses_is_not_idle():
    used = {"top_p": ("value", "eps", "metric"), "percentile": ("low", "high"), "top_k": ("at_least_one", "value")}
    for rule, names in used.items():
        idle = idle_keys({"algorithm": asdict(AlgorithmConfig()), "filter": asdict(FilterConfig(rule=rule)), **OFF})
        assert not {f"filter.{name}" for name in names} & idle.keys()


SMALL = (
    "model=qwen2.5-0.5b", "train.iterations=2", "train.prompts=4", "train.group_size=4", "train.mini_batches=2",
    "eval.every=2", "eval.instances=16", "eval.heldout=0", "mi.every=0", "mi.probe=0",
)  # fmt: skip
OF_A_RUN = {
    "train.critic_lr": 0.5,
    "train.critic_warmup": 2,
    "algorithm.value_clip": 0.01,
    "algorithm.lam": 0.1,
    "algorithm.gamma": 0.1,
    "algorithm.norm_by_std": False,
    "algorithm.std_floor": 0.5,
    "algorithm.max_refills": 0,
    "gradient.halves": True,
    "mi.turns": 3,
    "filter.scale_power": "sqrt",
    **{f"filter.{name}": value for name, value in OTHERS.items()},
}


class Recorder:
    """A RunIO that keeps every metric but timings."""

    def __init__(self, cache):
        self.cache, self.metrics = cache, {}

    def log(self, step, metrics):
        self.metrics |= {
            (name, step): value for name, value in metrics.items() if not name.startswith(("time/", "mem/"))
        }

    def save(self, step, state, *, peak=False, write_files=None):
        self.peak = (step, state)

    def load_peak(self):
        return self.peak

    def should_stop(self):
        return False

    def restore(self):
        return None

    def facts(self, facts): ...

    def table(self, name, step, data): ...


@pytest.mark.parametrize("groups", ["algorithm=grpo", "algorithm=ppo", "algorithm=dapo filter=random"])
def test_a_training_is_the_same_to_the_bit_whatever_its_idle_keys_say(groups, tmp_path):
    spec = find_trainer("embedded")
    run = build_run([*SMALL, *groups.split()])
    histories = []
    for changed in ({}, {key: OF_A_RUN[key] for key in idle_keys(run.config) if key in OF_A_RUN}):
        config = config_object(run, spec)
        for key, value in changed.items():
            section, name = key.split(".")
            setattr(config, section, replace(getattr(config, section), **{name: value}))
        recorder = Recorder(tmp_path)
        spec.train(config, recorder)
        histories.append(recorder.metrics)
    assert len(changed) > 2 and len(histories[0]) > 20
    assert repr(histories[0]) == repr(histories[1])
