"""The typed check of one value agrees with OmegaConf's, and adds choices, ranges and suggestions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from plat.errors import SpecError
from plat.spec.composition.schema import build, schema_of
from plat.suggest import nearest, suggest
from plat.trainer.config_fields import choice, number
from plat_rl.run_config import RunConfig


class Colour(Enum):
    red = 1
    blue = 2


@dataclass
class Inner:
    rate: float = 0.1
    label: str | None = None


@dataclass
class Config:
    count: int = 1
    rate: float = 0.5
    on: bool = False
    text: str = "x"
    maybe: int | None = None
    colour: Colour = Colour.red
    numbers: list[int] = field(default_factory=list)
    table: dict[str, float] = field(default_factory=dict)
    free: dict[str, Any] = field(default_factory=dict)
    anything: Any = 0
    inner: Inner = field(default_factory=Inner)
    rule: str = choice("top_p", "top_k")
    share: float = number(0.5, minimum=0, maximum=1)
    scale: float = number(1.0, above=0)


SCHEMA = schema_of(Config)
KEYS = ["count", "rate", "on", "text", "maybe", "colour", "numbers", "anything", "inner.rate", "inner.label"]
_values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False),
    st.sampled_from(["1", "1.5", "1e-3", "true", "yes", "off", "red", "BLUE", "", "x", "nan", "null"]),
    st.lists(st.one_of(st.integers(-5, 5), st.sampled_from(["1", "x"])), max_size=3),
)


@given(st.sampled_from(KEYS), _values)
@settings(max_examples=400, deadline=None)
def test_conversion_is_omegaconfs(key: str, value: Any) -> None:
    typed = OmegaConf.structured(Config)
    try:
        OmegaConf.update(typed, key, value)
        expected = OmegaConf.select(OmegaConf.create(OmegaConf.to_container(typed, enum_to_str=True)), key)
        expected = OmegaConf.to_container(expected) if OmegaConf.is_config(expected) else expected
    except (OmegaConfBaseException, ValueError):
        with pytest.raises(SpecError):
            SCHEMA.check(key, value)
        return
    if isinstance(expected, float) and not math.isfinite(expected):
        with pytest.raises(SpecError):
            SCHEMA.check(key, value)
        return
    checked = SCHEMA.check(key, value)
    assert checked == expected and type(checked) is type(expected)


@pytest.mark.parametrize(
    ("key", "value", "what", "fix"),
    [
        ("cuont", 1, "unknown key", "'count'"),
        ("inner.raet", 1, "unknown key", "'inner.rate'"),
        ("label", "x", "unknown key", "'inner.label'"),
        ("count", 1.5, "not a whole number", "whole number"),
        ("count", None, "null", "whole number"),
        ("rate", "fast", "'fast' is not a number", "number"),
        ("on", "perhaps", "not true or false", "true or false"),
        ("colour", "green", "not one of", "red, blue"),
        ("rule", "top_pp", "unknown value", "'top_p'"),
        ("share", 1.5, "out of range", "at most 1"),
        ("share", -0.1, "out of range", "at least 0"),
        ("scale", 0, "out of range", "more than 0"),
        ("inner", 3, "group of keys", "inner."),
        ("free", 3, "needs keys", "free.NAME"),
        ("numbers", 3, "not", "list"),
        ("table.x", "y", "not", "number"),
        ("text", "${oc.env:HOME}", "interpolations", "value itself"),
        ("free.x", "${rate}", "interpolations", "value itself"),
        ("text", "???", "not text", "text"),
        ("text", {"a": 1}, "not text", """quoted a second time: '{"a": 1}'"""),
        ("rate", float("nan"), "NaN", "number"),
    ],
)
def test_refused(key: str, value: Any, what: str, fix: str) -> None:
    with pytest.raises(SpecError) as caught:
        SCHEMA.check(key, value)
    assert what in caught.value.what and fix in str(caught.value.fix)


def test_free_keys_and_typed_dicts() -> None:
    assert SCHEMA.check("free.any.thing", 3) == 3
    assert SCHEMA.check("table.x", 1) == 1.0 and type(SCHEMA.check("table.x", 1)) is float


def test_build_equals_omegaconfs_objects() -> None:
    values = {**SCHEMA.defaults, "inner": {"rate": 2.0, "label": "z"}, "colour": "blue", "free": {"a": [1]}}
    expected = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), values))
    assert build(Config, values) == expected
    run = schema_of(RunConfig).defaults
    assert build(RunConfig, run) == OmegaConf.to_object(OmegaConf.structured(RunConfig)) == RunConfig()


def test_missing_values_and_unusable_types_are_errors() -> None:
    @dataclass
    class Needs:
        seed: int = MISSING

    @dataclass
    class Odd:
        thing: complex = 1j

    assert schema_of(Needs).missing == ("seed",)
    with pytest.raises(SpecError, match="typed config"):
        schema_of(Odd)


def test_every_choice_and_range_of_the_built_in_config_admits_its_default() -> None:
    schema = schema_of(RunConfig)
    for key, leaf in schema.leaves.items():
        default = schema.defaults
        for name in key.split("."):
            default = default[name]
        assert schema.check(key, default) == default, leaf


def test_suggestions() -> None:
    assert nearest("sokobann", ["sokoban", "frozenlake"]) == "sokoban"
    assert nearest("SOKOBAN", ["sokoban"]) == "sokoban"
    assert nearest("lr", ["train.lr", "train.prompts"]) == "train.lr"
    assert nearest("quite-different", ["sokoban"]) is None
    assert nearest("train.epochs", ["train", "train.prompts", "train.group_size"]) is None
    assert nearest("train.prompt", ["train", "train.prompts"]) == "train.prompts"
    assert suggest("train.epochs", ["seed", "train.prompts"], "keys") == "keys: train.prompts"
    assert "valid names: a, b" in suggest("quite-different", ["a", "b"])
    assert "(40 in all)" in suggest("quite-different", [f"n{i:02d}" for i in range(40)])
