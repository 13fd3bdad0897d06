"""Trainers that are misspelt, cannot be imported, or whose own code fails while a run is planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from plat.errors import PluginError, SpecError

SICK = """import plat_toy
class Sick(plat_toy.Toy):
    def {name}(self, config):
        {body}
"""
SICK_TRAINERS = [
    ("validate", "1 / 0", "`validate` of the trainer 'toy' failed: ZeroDivisionError", 4),
    ("validate", "return None", "`validate` of the trainer 'toy' returned None", 3),
    ("fingerprint", "return 7", "`fingerprint` of the trainer 'toy' returned 7", 3),
    ("resources", "return 3", "`resources` of the trainer 'toy' returned 3", 3),
    ("resources", "return {'threads': -1}", "`resources` of the trainer 'toy' is wrong: the resource threads must", 3),
    ("preparation", "return 'recipe'", "`preparation` of the trainer 'toy' returned 'recipe'", 3),
]


@pytest.mark.parametrize(("name", "body", "what", "line"), SICK_TRAINERS, ids=[case[2] for case in SICK_TRAINERS])
def test_a_mistake_in_a_trainers_code_is_named_with_its_line(
    load: Callable[..., object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    body: str,
    what: str,
    line: int,
) -> None:
    module = f"sick_{name}_{len(body)}"
    (tmp_path / f"{module}.py").write_text(SICK.format(body=body, name=name))
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PluginError) as caught:
        load(f"title: t\nbase: {{trainer: '{module}:Sick'}}\n")
    assert what in caught.value.what and str(caught.value.where).startswith(f"{tmp_path}/{module}.py:{line} (")


def test_a_trainer_whose_file_python_cannot_read(
    refused: Callable[..., SpecError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "unreadable_trainer.py").write_text("x = 1\ndef train(:\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    error = refused("title: t\nbase: {trainer: 'unreadable_trainer:SPEC'}\n")
    assert isinstance(error, PluginError) and "SyntaxError" in error.what
    assert str(error.where).startswith(f"{tmp_path}/unreadable_trainer.py:2 (named at ") and ":2:17" in str(error.where)


@pytest.mark.parametrize(("place", "near"), [("plat_toy:Tyo", "'Toy'"), ("embeded:SPEC", "'embedded'")])
def test_a_misspelt_trainer_gets_the_nearest_name(refused: Callable[..., SpecError], place: str, near: str) -> None:
    error = refused(f"title: t\nbase: {{trainer: '{place}'}}\n")
    assert f"did you mean {near}?" in str(error.fix) and str(error.where).endswith(":2:17")


@pytest.mark.parametrize("place", ["..x:y", ":", "x:", ":x", "os:getcwd", "a b:c"])
def test_a_trainer_that_cannot_be_imported(refused: Callable[..., SpecError], place: str) -> None:
    what = refused(f"title: t\nbase: {{trainer: '{place}'}}\n").what
    assert "cannot load the trainer" in what or "not a subclass of Trainer" in what
