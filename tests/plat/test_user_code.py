"""Mistakes in the code of other packages are named as theirs, with the file and line."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from plat.errors import PluginError, SpecError
from plat.user_code import definition_of, in_words, place_of, position_of, user_code


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Import a module of two files, of which one calls into the other and then into a library."""
    folder = tmp_path / "plugin_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "outer.py").write_text("from plugin_of_mine import inner\n\ndef call():\n    return inner.call()\n")
    (folder / "inner.py").write_text("import json\n\ndef call():\n    return json.loads('{')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("plugin_of_mine.outer")
    for name in [name for name in sys.modules if name.startswith("plugin_of_mine")]:
        del sys.modules[name]


def test_the_line_is_that_of_the_plug_in_not_of_the_library_it_called(module):
    inner = Path(module.__file__).with_name("inner.py")
    with pytest.raises(PluginError) as caught, user_code("it cannot be asked"):
        module.call()
    assert caught.value.where == f"{inner}:4"
    assert caught.value.what.startswith("it cannot be asked: JSONDecodeError: ")


def test_what_says_itself_what_is_wrong_passes():
    with pytest.raises(SpecError, match=r"^wrong$"), user_code("it failed"):
        raise SpecError("wrong")
    with pytest.raises(KeyboardInterrupt), user_code("it failed"):
        raise KeyboardInterrupt


def test_ctrl_c_stays_ctrl_c_where_python_wraps_it():
    """Python 3.11 turns an exception of `__set_name__` into a RuntimeError, e.g. while it imports a package."""

    class Interrupted:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), user_code("it failed"):
        type("Owner", (), {"attribute": Interrupted()})


@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), StopIteration()])
def test_what_would_end_plat_in_silence_does_not_pass(error):
    with pytest.raises(PluginError, match=f"it failed: {type(error).__name__}"), user_code("it failed"):
        raise error


def test_code_of_python_alone_has_no_place():
    with pytest.raises(ValueError) as caught:
        json.loads("{")
    assert place_of(caught.value, behind=1) is None
    assert str(place_of(caught.value)).startswith(f"{__file__}:")


def test_words_and_definitions():
    assert in_words(KeyError()) == "KeyError"
    assert in_words(ValueError("a\n b")) == "ValueError: a b"
    assert definition_of(test_words_and_definitions).startswith(f"{__file__}:")
    assert definition_of(len) is None


def test_the_position_of_an_attribute_is_its_assignment(tmp_path, monkeypatch):
    (tmp_path / "a_plugin.py").write_text("A = 1\nSPECS = 2\nSPEC: int = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert position_of("a_plugin:SPEC") == "a_plugin:SPEC"
    importlib.import_module("a_plugin")
    assert position_of("a_plugin:SPEC") == f"{tmp_path / 'a_plugin.py'}:3"
    assert position_of("a_plugin:OTHER") == f"{tmp_path / 'a_plugin.py'}:1"
