"""An entry point of plat.environments that is no environment is named, wherever it is loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plat.errors import PluginError
from plat.plugins.loading import load_choice
from plat_envs.api import find_environment
from plat_envs.environment_errors import BadEnvironment

SOURCE = """from plat_envs.api import EnvironmentSpec
a_thing = object()
nothing = None
a_class = EnvironmentSpec
class half_filled:
    name = "half"
right = EnvironmentSpec("right", dict, dict, "1")
"""
WRONG = {"a_thing": "a object", "nothing": "a NoneType", "a_class": "a type", "half_filled": "a type"}


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that is published as if it were installed."""
    (tmp_path / "strange_envs.py").write_text(SOURCE)
    info = tmp_path / "strange_envs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange-envs\nVersion: 1.0\n")
    points = "\n".join(f"{name} = strange_envs:{name}" for name in (*WRONG, "right"))
    (info / "entry_points.txt").write_text(f"[plat.environments]\n{points}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "strange_envs.py"
    sys.modules.pop("strange_envs", None)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_environment_is_named(name: str, package: Path) -> None:
    said = f"the environment '{name}' is {WRONG[name]}, not an EnvironmentSpec"
    with pytest.raises(BadEnvironment, match=said) as raised:
        find_environment(name)
    assert f"strange_envs:{name}" in str(raised.value.where) and raised.value.fix
    with pytest.raises(PluginError, match=f"'{name}' of plat.environments is .*config_type") as refused:
        load_choice("plat.environments", name)
    assert f"{package}:" in str(refused.value.where) and refused.value.fix


def test_an_environment_is_loaded() -> None:
    assert find_environment("right") is load_choice("plat.environments", "right")
