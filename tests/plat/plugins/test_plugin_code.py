"""Which files of a plug-in count: those that make its runs, and nothing that is released, Python's or plat's."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plat.plugins import plugin_code as module
from plat.plugins.plugin_code import CODE, PluginCode, changed_files, code_facts, plugin_code
from plat.trainer.finding import find_trainer
from plat_envs.api import find_environment

FILES = {
    "kinds/__init__.py": "",
    "kinds/trainer.py": "import json, numpy\nfrom kinds.inner import deep\nfrom . import sibling\n"
    "from .rest import thing\nimport plat.trainer.api\ndef load():\n    import lazy_top\n    return None\n"
    "class Own(plat.trainer.api.Trainer):\n    name = 'own'\n",
    "kinds/inner/__init__.py": "",
    "kinds/inner/deep.py": "from ..rest import thing\ndef never():\n    from ... import far\n    import no_such\n",
    "kinds/sibling.py": "x = 1\n",
    "kinds/rest.py": "thing = 1\n",
    "kinds/report.py": "drawn = 1\n",
    "kinds/data.csv": "a,b\n",
    "lazy_top.py": "import another\n",
    "another/__init__.py": "def broken(:\n",
    "unrelated.py": "y = 2\n",
}
COUNTED = {
    "kinds/__init__.py", "kinds/trainer.py", "kinds/inner/__init__.py", "kinds/inner/deep.py", "kinds/sibling.py",
    "kinds/rest.py", "lazy_top.py", "another/__init__.py",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    forget()
    yield tmp_path
    forget()
    for name in set(sys.modules) - before:
        del sys.modules[name]


def forget() -> None:
    module._imported_files.cache_clear()
    module._place.cache_clear()
    importlib.invalidate_caches()


class Plugin:
    def __init__(self, load: Callable[..., Any], code: str | None = None) -> None:
        self.load, self.code, self.version, self.metrics = load, code, "1", ("a",)


def code() -> PluginCode:
    forget()
    found = plugin_code(Plugin(importlib.import_module("kinds.trainer").load))
    assert found is not None
    return found


def test_what_a_trainer_imports_counts_in_whatever_way_it_is_imported(folder: Path) -> None:
    assert set(code().files) == COUNTED


def test_the_code_of_a_trainer_is_that_of_its_class_and_its_bases(folder: Path) -> None:
    own = importlib.import_module("kinds.trainer").Own
    found = plugin_code(type("Other", (own,), {"__module__": "unrelated"}))
    assert found is not None and set(found.files) == COUNTED | {"unrelated.py"} and found.named is None
    assert code_facts("trainer", own) == code_facts("trainer", Plugin(importlib.import_module("kinds.trainer").load))


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_change_counts_exactly_in_a_file_that_makes_the_runs(folder: Path, name: str) -> None:
    before = code()
    (folder / name).write_text(FILES[name] + "\n# changed\n")
    after = code()
    assert changed_files(before.files, after.files) == ([name] if name in COUNTED else [])
    assert (before.digest != after.digest) == (name in COUNTED)


def test_a_new_and_a_removed_import_are_named(folder: Path) -> None:
    before = code()
    (folder / "kinds/sibling.py").write_text("import unrelated\n")
    assert changed_files(before.files, code().files) == ["kinds/sibling.py", "unrelated.py"]


def test_the_author_may_name_the_code(folder: Path) -> None:
    load = importlib.import_module("kinds.trainer").load
    assert code_facts("trainer", Plugin(load, "first")) == [("trainer", CODE + "first")]
    assert code_facts("trainer", Plugin(functools.partial(load))) == code_facts("trainer", Plugin(load))


def test_plat_itself_and_releases_do_not_count() -> None:
    for spec in (type(find_trainer("embedded")), type(find_trainer("verl")), find_environment("sokoban")):
        assert plugin_code(spec) is None
    import numpy
    import scipy.stats

    assert plugin_code(Plugin(numpy.linalg.norm)) is None and plugin_code(Plugin(scipy.stats.norm.pdf)) is None


@pytest.mark.parametrize(
    ("origin", "counts"),
    [
        ('{"url": "file:///x", "dir_info": {}}', True),
        ('{"url": "https://x/y", "vcs_info": {"vcs": "git", "commit_id": "1"}}', True),
        ('{"url": "file:///x.whl", "archive_info": {}}', False),
        ("{", False),
        (None, False),
    ],
)
def test_a_package_counts_that_was_installed_from_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None, counts: bool
) -> None:
    info = tmp_path / "site" / "mine-1.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "mine_own.py").write_text("def load(): ...\n")
    (info / "RECORD").write_text("mine_own.py,,\n")
    if origin is not None:
        (info / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(module, "_SITE", (f"{tmp_path}/site/",))
    forget()
    assert bool(module.imported_files("mine_own")) == counts
    forget()
