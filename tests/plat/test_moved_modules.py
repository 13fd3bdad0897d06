"""Modules have the names of plat 0.4, too, until plug-ins have changed them."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from plat.moved_modules import MOVED, present_name


@pytest.mark.parametrize("old", MOVED)
def test_a_moved_module_is_the_same_under_both_names(old: str) -> None:
    there = importlib.import_module(MOVED[old])
    assert importlib.import_module(old) is there
    assert there.__spec__ is not None and there.__spec__.name == there.__name__ == MOVED[old]


def test_a_module_inside_a_moved_package_is_not_loaded_twice() -> None:
    code = "import plat.rl.filter.rule as a, plat_rl.rl.filter.rule as b; print(a is b, a.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == "True plat_rl.rl.filter.rule\n"


def test_other_names_are_left_alone() -> None:
    assert present_name("plat.rlx") is None and present_name("plat.trainer.api") is None
    with pytest.raises(ModuleNotFoundError, match=r"plat_rl\.rl\.nothing"):
        importlib.import_module("plat.rl.nothing")
