"""The house rules of source files: short enough for one idea, a docstring that promises something, typed packages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = {
    "plat": ROOT / "platform" / "plat",
    "plat_rl": ROOT / "platform" / "plat_rl",
    "plat_envs": ROOT / "envs" / "plat_envs",
    "plat_analysis": ROOT / "analysis" / "plat_analysis",
    "plat_ragen2": ROOT / "analysis" / "plat_ragen2",
}
FILES = sorted(path for folder in SOURCES.values() for path in folder.rglob("*.py"))


def test_the_source_folders_do_not_shadow_the_standard_library():
    for folder in ("platform", "envs", "analysis"):
        assert not (ROOT / folder / "__init__.py").exists()


def test_a_file_is_one_idea():
    long = {str(path.relative_to(ROOT)): n for path in FILES if (n := len(path.read_text().splitlines())) >= 350}
    assert not long, long


def test_a_module_says_what_it_promises():
    silent = [
        str(path.relative_to(ROOT))
        for path in FILES
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, silent


@pytest.mark.parametrize("package", SOURCES)
def test_every_package_says_that_it_is_typed(package: str) -> None:
    assert (SOURCES[package] / "py.typed").is_file()
