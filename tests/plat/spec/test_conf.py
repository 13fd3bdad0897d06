"""The config groups, and that merging options composed alone equals Hydra composing the whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from plat.errors import SpecError
from plat.spec.composition.conf import conf_of, hydra_conf, reference
from plat.spec.expansion.experiment import build_run
from plat_rl.run_config import RunConfig
from plat_rl.validation import idle_keys

CONF = conf_of("plat_rl.conf")
OPTIONS = [(group, option) for group, options in CONF.options.items() for option in options]
KEYS: dict[str, list[str]] = {
    "seed": ["1", "77"],
    "train.lr": ["1", "0.001", "1e-3", "3.0e-5"],
    "train.iterations": ["5", "'6'"],
    "filter.value": ["1", "0.5"],
    "filter.metric": ["reward_std", "entropy"],
    "algorithm.norm_by_std": ["true", "false", "yes"],
    "algorithm.kl_coef": ["0", "0.01"],
    "model.path": ["null"],
    "model.shape.layers": ["2", "3"],
    "mi.every": ["0", "7"],
    "early_stop.success_floor": ["0", "0.5"],
    "eval.temperature": ["1"],
    "threads": ["2"],
}


def test_groups_are_merged_in_the_documented_order() -> None:
    assert CONF.order == ["_self_", "task", "algorithm", "model", "filter", "scale"]


GLOBAL = (("model", "qwen2.5-vl-3b"),)  # its answers are longer, so that the scale decides last


@pytest.mark.parametrize(("group", "option"), OPTIONS, ids=lambda part: part)
def test_no_nested_defaults_and_no_interpolation(group: str, option: str) -> None:
    text = CONF.option_file(group, option).read_text()
    data = yaml.safe_load(text)
    assert "defaults" not in data and "${" not in text
    assert text.startswith("# @package _global_\n") == (group == "scale" or (group, option) in GLOBAL)
    if group != "scale":
        own = data[group] if (group, option) in GLOBAL else data
        assert own["name"] == option, "the name a run carries is the option's"
    assert CONF.delta(group, option)


REAL_MODELS = (("scale", "paper"), ("task", "reasoning_gym"))  # no stand-in runs there
NEWEST_BASE = "model.base.version=v3"  # which has seen all tasks


@pytest.mark.parametrize(("group", "option"), [pair for pair in OPTIONS if pair not in REAL_MODELS], ids=str)
def test_every_option_makes_a_run(group: str, option: str) -> None:
    assert build_run([f"{group}={option}", NEWEST_BASE]).axes[group] == option


def test_the_paper_scale_needs_a_trainer_that_is_named() -> None:
    with pytest.raises(SpecError) as caught:
        build_run(["scale=paper", "trainer=verll"])
    assert "unknown trainer 'verll'" in caught.value.what and "embedded" in str(caught.value.fix)


def test_sixty_random_runs_equal_hydra() -> None:
    rng = random.Random(2604)
    chosen = []
    for _ in range(60):
        picked = {group: rng.choice(CONF.options[group]) for group in CONF.options if rng.random() < 0.7}
        if picked.get("scale") == "paper":
            picked["scale"] = "smoke"
        keys = {key: rng.choice(values) for key, values in KEYS.items() if rng.random() < 0.3}
        if picked.get("task") == "reasoning_gym":  # no stand-in plays it
            picked["task"] = "bandit"
        chosen.append([NEWEST_BASE, *(f"{key}={value}" for key, value in {**picked, **keys}.items())])
        rng.shuffle(chosen[-1])
    composed = [dict(build_run(overrides).config) for overrides in chosen]
    for config, overrides in zip(composed, chosen, strict=True):  # those without effect are not taken
        idle = idle_keys(config)
        overrides[:] = [override for override in overrides if override.partition("=")[0] not in idle]
    with reference("plat_rl.conf", RunConfig) as compose:
        expected = [compose(overrides) for overrides in chosen]
    for ours, hydras, overrides in zip(composed, expected, chosen, strict=True):
        ours["task"] = {**ours["task"], "env": hydras["task"]["env"]}  # filled in by the environment, see below
        assert ours == hydras, overrides
        assert repr(ours) == repr(hydras), "types and order too"


def test_environment_options_start_from_the_environments_defaults() -> None:
    config = build_run(["task=frozenlake", "task.env.success_rate=1", "task.turns=6"]).config
    env = config["task"]["env"]
    assert env["success_rate"] == 1.0 and env["size"] == 4, "given, and default"
    assert env["turns"] == 6, "an option that the task has too is the task's"


FLAT = {
    "config.yaml": "defaults:\n  - schema\n  - size: small\n  - _self_\n  - mode: fast\nseed: 7\nrate: 0.25\n",
    "size/small.yaml": "width: 4\n",
    "size/big.yaml": "# @package _global_\nsize: {width: 64}\nrate: 0.75\nmode: {steps: 1}\n",
    "mode/fast.yaml": "steps: 10\nswitch: on\n",
    "mode/slow.yaml": "# @package _global_\nmode: {steps: 500}\nseed: 11\n",
}


@dataclass
class Size:
    width: int = 1
    depth: int = 1


@dataclass
class Mode:
    steps: int = 1
    switch: bool = False


@dataclass
class Foreign:
    trainer: str = "foreign"
    seed: int = 0
    rate: float = 0.0
    size: Size = field(default_factory=Size)
    mode: Mode = field(default_factory=Mode)


def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, str]) -> str:
    for file, text in {"__init__.py": "", **files}.items():
        path = tmp_path / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


@pytest.mark.parametrize("size", ["small", "big"])
@pytest.mark.parametrize("mode", ["fast", "slow"])
def test_another_papers_conf_equals_hydra_too(
    size: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Callable[..., Any]
) -> None:
    module = package(tmp_path, monkeypatch, "foreign_conf_" + size + mode, FLAT)
    trainer(Foreign, "foreign", conf=module)
    overrides = [f"size={size}", f"mode={mode}", "size.depth=3"]
    with reference(module, Foreign) as compose:
        expected = compose(overrides)
    assert build_run(["trainer=foreign", *overrides]).config == expected


def test_a_group_is_read_like_an_experiment_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Callable[..., Any]
) -> None:
    files = {
        "config.yaml": "defaults: [{size: small}]",
        "size/small.yaml": "width: 010\n",
        "size/none.yaml": "# as is\n",
    }
    trainer(Foreign, "foreign", conf=package(tmp_path, monkeypatch, "octal_conf", files))
    assert build_run(["trainer=foreign"]).config["size"]["width"] == 10  # eight in YAML 1.1
    assert build_run(["trainer=foreign", "size=none"]).config["size"] == {"width": 1, "depth": 1}


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"config.yaml": "defaults: [{size: small}]", "size/small.yaml": "width: ${seed}"}, "interpolation"),
        ({"config.yaml": "defaults: [{size: small}]", "size/small.yaml": "width: ["}, "not valid YAML"),
        ({"config.yaml": "defaults: [{size: small}]", "size/small.yaml": "widht: 3"}, "unknown key"),
        ({"config.yaml": "defaults: [{size: tiny}]", "size/small.yaml": "width: 3"}, "unknown option"),
        ({"config.yaml": "defaults: [3]"}, "defaults list"),
        ({"config.yaml": "[]"}, "mapping"),
        ({}, "no such file"),
    ],
)
def test_a_broken_conf_is_an_error_with_its_place(
    files: dict[str, str], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Callable[..., Any]
) -> None:
    module = package(tmp_path, monkeypatch, f"broken_conf_{abs(hash((what, tuple(files))))}", files)
    trainer(Foreign, "foreign", conf=module)
    with pytest.raises(SpecError) as caught:
        build_run(["trainer=foreign"])
    assert what in caught.value.what and caught.value.where and caught.value.fix


def test_hydra_is_left_in_its_earlier_state() -> None:
    with hydra_conf("plat_rl.conf") as outer:
        build_run(["task=sokoban", "filter=within_group"])
        assert OmegaConf.select(outer(overrides=["+task=countdown"]), "task.name") == "countdown"
