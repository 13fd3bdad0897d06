"""A TrainerSpec with a wrong field is refused when it is found, with the field."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import plat_toy
import pytest

from plat.errors import PluginError
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import build_run
from plat.trainer import finding
from plat.trainer.api import TrainerSpec
from plat.trainer.finding import FIELDS, find_trainer, wrong_field
from plat.trainer.resources import Resources

WRONG: dict[str, Any] = {
    "operational_keys": "train.x",  # a forgotten comma
    "metrics": "val/success",
    "cost_keys": None,
    "preload": (1,),
    "legacy": ["train.x"],
    "headline": 3,
    "code": "a\nb",
    "stall_after": "x",
    "iterations": 3,
    "version": 1.0,
    "idle_keys": {},
    "prepare": "later",
    "config_type": None,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_field_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    values = {field.name: getattr(plat_toy.SPEC, field.name) for field in fields(TrainerSpec)}
    monkeypatch.setattr(plat_toy, "SPEC", TrainerSpec(**{**values, name: WRONG[name]}))
    with pytest.raises(PluginError) as caught:
        build_run(["trainer=plat_toy:SPEC"])
    assert f"{name} is {WRONG[name]!r}" in caught.value.what and "plat_toy.py" in str(caught.value.where)


def test_every_field_is_checked_and_those_of_plat_are_right() -> None:
    assert set(FIELDS) == {field.name for field in fields(TrainerSpec)}
    assert [
        wrong_field(find_trainer(name)) for name in ("embedded", "verl", "script", "recorded", "plat_toy:SPEC")
    ] == [""] * 5


def boom(*arguments: Any) -> Any:
    return 1 / 0


RETURNS: dict[str, tuple[Any, ...]] = {  # what a function must not give back
    "iterations": ("x", float("nan"), -3, True, 1.5),
    "disk_bytes": ("x", None, float("nan"), -1, float("inf")),
    "less_memory": ("x", 3),
    "validate": (None,),
    "fingerprint": (None, {"a": object()}, {"a": "\ud800"}),
    "prepare": ("x", ("a",)),
    "resources": (None, {"threads": -1}, Resources(gpus="x")),  # type: ignore[arg-type]
    "idle_keys": (None, {"a": 1}),
    "source_files": (None, {"a": 1}),
    "headline": ("", 3),
    "needs": (None, ["a server"]),
    "doubts": ("x", None, [1]),
    **dict.fromkeys(("load", "load_prepare", "load_evaluate", "load_check", "load_plan_note"), (None, "x")),
}


@pytest.mark.parametrize("name", [*RETURNS, "check_machine"])
def test_what_a_function_of_a_trainer_raises_or_returns_is_named_with_its_line(name: str) -> None:
    for function in (boom, *(lambda *_, value=value: value for value in RETURNS.get(name, ()))):
        with pytest.raises(PluginError) as caught:
            checked_call(replace(plat_toy.SPEC, **{name: function}), name)(plat_toy.ToyConfig())
        assert f"`{name}` of the trainer 'toy'" in caught.value.what and caught.value.fix
        assert str(caught.value.where).startswith(f"{__file__}:")


def test_every_function_of_a_trainer_can_be_called_so() -> None:
    functions = {name for name, kind in FIELDS.items() if "a function" in kind.words}
    assert functions == {*RETURNS, "check_machine"}


def test_facts_that_json_cannot_hold_are_the_trainers_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {field.name: getattr(plat_toy.SPEC, field.name) for field in fields(TrainerSpec)}
    spec = TrainerSpec(**{**values, "fingerprint": lambda config: {"a": object()}})
    monkeypatch.setattr(finding, "find_trainer", lambda name, folder=None: spec)
    with pytest.raises(PluginError, match="`fingerprint` of the trainer"):
        build_run(["trainer=own"])
