"""The counts of `tools.structure` on small trees with known answers, and the recorder of `tools.walks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import structure
from tools.walks import RECORDER, publish_entry_points

SMALL = '''"""A module.

With three lines."""

import os  # a comment beside code

# a comment of its own line
TEXT = """two
lines"""


class Thing:
    """A class."""

    def method(self, a, b, c, d, e):
        return a

    def _private(self, a, b, /, c, *args, d, **kwargs):
        def inside():
            return 1

        return inside


def documented():
    """Do nothing."""
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for room in structure.ROOMS[:2]:
        (tmp_path / room / "pkg").mkdir(parents=True)
        (tmp_path / room / "pkg" / "__init__.py").write_text("")
        (tmp_path / room / "pkg" / "small.py").write_text(SMALL)
    body = "    x = 1\n" * 50
    (tmp_path / "platform" / "pkg" / "long.py").write_text(f"def f():\n{body}\n\ndef g():\n{body[10:]}")
    return tmp_path


def test_a_file_is_counted_by_its_syntax(tree: Path) -> None:
    file = structure.measure(tree / "platform" / "pkg" / "small.py")
    assert file.lines == len(SMALL.splitlines())
    assert file.code == 11  # two of TEXT; no line of a docstring, a comment or white space
    assert (file.long, file.many) == (0, 1)  # method has five without self, _private six
    assert (file.public, file.documented) == (2, 1)


def test_a_tree_is_counted_by_room(tree: Path) -> None:
    sizes = structure.sizes(tree)
    small = len(SMALL.splitlines())
    assert sizes["lines of platform"] == str(small + 103)
    assert sizes["lines of analysis"] == str(small) and sizes["lines of tools"] == "0"
    assert sizes["lines without tests"] == str(2 * small + 103)
    assert sizes["files"] == "5" and sizes["median file"] == str(small)
    assert sizes["largest file"] == "103 (long.py)"
    assert sizes["shared base names"] == "1 in 2 files"  # small; __init__ does not count
    assert sizes["functions over 50 lines"] == "1" and sizes["functions over 5 parameters"] == "2"
    assert sizes["public with docstring"] == "33.3% of 6"


def test_the_table_has_a_column_for_each_checkout() -> None:
    heading, line = structure.render({"working tree": {"files": "5"}, "abc": {"files": "6"}}).splitlines()
    assert heading.split() == ["working", "tree", "abc"] and line.split() == ["files", "5", "6"]


def test_the_recorder_names_files_with_a_called_function(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "called.py").write_text("def f():\n    return 1\n")
    (package / "imported.py").write_text("def f():\n    return 1\n\n\nclass A:\n    x = f()\n")
    (package / "child.py").write_text("def f():\n    return 1\n")
    (tmp_path / "sitecustomize.py").write_text(RECORDER)
    child = "import os\nif not (pid := os.fork()):\n    child.f()\n    os._exit(0)\nos.waitpid(pid, 0)"
    environment = {
        "PYTHONPATH": str(tmp_path),
        "PLAT_WALK_FOLDER": f"{package}/",
        "PLAT_WALK_RECORD": str(tmp_path / "record"),
    }
    command = f"from pkg import called, child, imported\ncalled.f()\n{child}"
    subprocess.run([sys.executable, "-c", command], check=True, env=environment)
    names = [Path(line).name for line in (tmp_path / "record").read_text().splitlines()]
    assert names == ["called.py", "child.py"]


def test_the_entry_points_of_a_checkout_are_published(tmp_path: Path) -> None:
    project = '[project]\nname = "p"\nversion = "1"\n[project.entry-points."plat.trainers"]\na = "b:C"\n'
    (tmp_path / "pyproject.toml").write_text(project)
    publish_entry_points(tmp_path, tmp_path)
    assert (tmp_path / "p-1.dist-info" / "entry_points.txt").read_text() == "[plat.trainers]\na = b:C\n"
