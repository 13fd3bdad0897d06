"""A key that has no effect in a run counts with the value of the run's config groups, so it makes no new run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from trainers import Bare, like

from plat.errors import PluginError
from plat.spec.expansion.experiment import build_run, load_experiment
from plat.trainer import finding
from plat_rl.validation import idle_keys

TABLE4 = Path(__file__).parents[3] / "experiments" / "table4.yaml"
OTHER_VALUES = {
    "filter.metric": "entropy",
    "filter.ddof": 1,
    "filter.value": 0.31,
    "filter.low": 0.11,
    "filter.high": 0.71,
    "filter.keep": "smallest",
    "filter.at_least_one": False,
    "filter.eps": 0.37,
    "filter.within_group_rounding": "round",
    "filter.scale_power": "sqrt",
    "algorithm.norm_by_std": False,
    "algorithm.max_refills": 9,
    "algorithm.lam": 0.5,
    "algorithm.gamma": 0.5,
    "algorithm.value_clip": 0.9,
    "train.critic_lr": 0.5,
    "train.critic_warmup": 3,
}
GROUPS = {
    "algorithm": ("ppo", "grpo", "drgrpo", "dapo", "dapo_released"),
    "filter": (
        "none",
        "top_p",
        "authors",
        "top_p_std",
        "top_k",
        "random",
        "percentile",
        "min_p",
        "within_group",
        "random_within_group",
    ),
    "scale": ("laptop", "smoke"),
}


@settings(max_examples=60, deadline=None)
@given(
    groups=st.fixed_dictionaries({name: st.sampled_from(options) for name, options in GROUPS.items()}),
    key=st.sampled_from(sorted(OTHER_VALUES)),
)
def test_an_override_makes_another_run_exactly_if_it_has_an_effect(groups: dict[str, str], key: str) -> None:
    plain = build_run([f"{group}={option}" for group, option in groups.items()])
    section, name = key.split(".")
    idle = key in idle_keys(plain.config)
    same_value = plain.config[section][name] == OTHER_VALUES[key]
    other = build_run([*(f"{group}={option}" for group, option in groups.items()), f"{key}={OTHER_VALUES[key]}"])
    assert (other.id == plain.id) == (idle or same_value)
    assert (other.config == plain.config) == (idle or same_value), "one id, one config"


def test_the_unfiltered_runs_of_table_4_stay_under_a_threshold_of_the_filter() -> None:
    before = {run.id for run in load_experiment(TABLE4).runs}
    now = {run.id for run in load_experiment(TABLE4, ["filter.eps=0.0"]).runs}
    assert len(before) == len(now) == 72 and len(before & now) == 36


def test_positions_of_an_axis_without_effect_share_one_run(tmp_path: Path) -> None:
    """The axis varies fastest, as that of siblings does, and stands in a section of its own beside the algorithm."""
    file = tmp_path / "shared.yaml"
    matrix = {"algorithm": ["grpo", "ppo"], "seed": [0, 1], "train.critic_lr": [0.1, 0.2, 0.3]}
    file.write_text(yaml.safe_dump({"title": "t", "base": {"scale": "smoke"}, "matrix": matrix}, sort_keys=False))
    experiment = load_experiment(file)
    ids: dict[tuple[str, int], set[str]] = {}
    for axes, run_id in experiment.cells:
        ids.setdefault((axes["algorithm"], axes["seed"]), set()).add(run_id)
    assert {key: len(found) for key, found in ids.items()} == {
        ("grpo", 0): 1, ("grpo", 1): 1, ("ppo", 0): 3, ("ppo", 1): 3,
    }  # fmt: skip
    assert len(experiment.runs) == 8 and len(experiment.cells) == 12


@dataclass
class Config:
    trainer: str = "own"
    mode: str = "plain"
    depth: int = 1
    seed: int = 0
    more: dict[str, Any] = field(default_factory=dict)


def own_trainer(monkeypatch: pytest.MonkeyPatch, idle: Callable[[Any], Any]) -> None:
    spec = like(Bare, name="own", config_type=Config, idle_keys=idle)()
    monkeypatch.setattr(finding, "find_trainer", lambda name, folder=None: spec)


def test_any_trainer_may_say_what_has_no_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    own_trainer(monkeypatch, lambda config: {} if config["mode"] == "deep" else {"depth": "only mode=deep has depth"})
    runs = {
        text: build_run(["trainer=own", *text.split()]) for text in ("", "depth=3", "mode=deep", "mode=deep depth=3")
    }
    assert runs[""].id == runs["depth=3"].id and runs["depth=3"].config["depth"] == 1
    assert runs["mode=deep"].id != runs["mode=deep depth=3"].id and runs["mode=deep depth=3"].config["depth"] == 3


@pytest.mark.parametrize(
    "wrong", [lambda config: config["nothing"], lambda config: ["depth"], lambda config: {"depth": 3}]
)
def test_a_mistake_in_what_a_trainer_says_is_named_as_its_own(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], Any]
) -> None:
    own_trainer(monkeypatch, wrong)
    with pytest.raises(PluginError) as caught:
        build_run(["trainer=own"])
    assert "`idle_keys` of the trainer 'own'" in caught.value.what and __file__ in str(caught.value.where)
