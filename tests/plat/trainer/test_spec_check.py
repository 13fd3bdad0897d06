"""A trainer with a wrong attribute or method is refused when it is found, with its name."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import plat_toy
import pytest
from trainers import like

from plat.errors import PluginError
from plat.spec.composition.trainer_calls import checked_call
from plat.spec.expansion.experiment import build_run
from plat.trainer.api import Trainer
from plat.trainer.resources import Resources

WRONG: dict[str, Any] = {
    "operational_keys": "train.x",  # a forgotten comma
    "metrics": "val/success",
    "cost_keys": None,
    "preload": (1,),
    "legacy": ["train.x"],
    "headline": "val/success",
    "code": "a\nb",
    "stall_after": "long",
    "iterations": 3,
    "version": 1.0,
    "idle_keys": {},
    "preparation": "later",
    "config_type": None,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_attribute_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(plat_toy, "Toy", like(plat_toy.Toy, **{name: WRONG[name]}))
    with pytest.raises(PluginError) as caught:
        build_run(["trainer=plat_toy:Toy"])
    assert f"{name} is {WRONG[name]!r}" in caught.value.what and caught.value.fix
    lines = Path(plat_toy.__file__).read_text().splitlines()
    assert f"{plat_toy.__file__}:{lines.index('class Toy(Trainer):') + 1}" in str(caught.value.where)


NO_TRAINERS = {  # the text of a module that names `Own` -> what is wrong, and the line
    "class Own(Trainer):\n    pass\n": ("has no method `train`", 2),
    "class Own(Trainer):\n    name = 'own'\n    train = print\n": ("version is missing", 2),
    "class Own(Trainer):\n    train = print\n    def __init__(self, what): ...\n": ("cannot be made: TypeError", None),
    "import plat_toy\nclass Own(plat_toy.Toy):\n    def train(config, io): ...\n": (
        "train has other arguments than",
        3,
    ),
    "class Old:\n    name = 'own'\nOwn = Old()\n": ("not a subclass of Trainer", 4),
    "from plat.trainer.api import TrainerSpec\nOwn = TrainerSpec('own')": ("there is no TrainerSpec any more", 2),
    "Own = Trainer\n": ("plat.trainer.api:Trainer has no method `train`", None),
}


@pytest.mark.parametrize("text", NO_TRAINERS)
def test_what_is_no_trainer_is_told_how_to_be_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    what, line = NO_TRAINERS[text]
    module = f"no_trainer_{[*NO_TRAINERS].index(text)}"
    (tmp_path / f"{module}.py").write_text("from plat.trainer.api import Trainer\n" + text)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError) as caught:
        build_run([f"trainer={module}:Own"])
    assert what in caught.value.what and caught.value.fix
    assert line is None or str(caught.value.where).startswith(f"{tmp_path / module}.py:{line} ")
    is_old = "Old" in text or "Spec" in text
    assert not is_old or all(word in caught.value.fix for word in ("plat.trainer.api.Trainer", "adding-a-trainer.md"))


def boom(*arguments: Any) -> Any:
    return 1 / 0


RETURNS: dict[str, tuple[Any, ...]] = {  # what a method must not give back
    "iterations": ("x", float("nan"), -3, True, 1.5),
    "disk_bytes": ("x", float("nan"), -1, float("inf")),
    "less_memory": ("x", 3),
    "validate": (None,),
    "fingerprint": (None, {"a": object()}, {"a": "\ud800"}),
    "preparation": ("x", ("a",)),
    "resources": (None, {"threads": -1}, Resources(gpus="x")),  # type: ignore[arg-type]
    "idle_keys": (None, {"a": 1}),
    "source_files": (None, {"a": 1}),
    "headline": ("", 3),
    "needs": (None, ["a server"]),
    "doubts": ("x", None, [1]),
    "evaluate": (None, {"a": object()}),
    "plan_note": ("x",),
    **dict.fromkeys(("check", "check_machine"), ()),
}


@pytest.mark.parametrize("name", RETURNS)
def test_what_a_method_of_a_trainer_raises_or_returns_is_named_with_its_line(name: str) -> None:
    for function in (boom, *(lambda *_, value=value: value for value in RETURNS[name])):
        with pytest.raises(PluginError) as caught:
            checked_call(like(plat_toy.Toy, **{name: function})(), name)(plat_toy.ToyConfig())
        assert f"`{name}` of the trainer 'toy'" in caught.value.what and caught.value.fix
        assert str(caught.value.where).startswith(f"{__file__}:")


def test_every_method_of_a_trainer_can_be_called_so() -> None:
    methods = {name for name, member in vars(Trainer).items() if inspect.isfunction(member)}
    assert methods == {*RETURNS, "train", "prepare"}
