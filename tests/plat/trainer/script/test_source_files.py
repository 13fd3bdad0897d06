"""The files of a script that are part of a run's identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.errors import SpecError
from plat.trainer.script.config import ScriptConfig
from plat.trainer.script.source_files import source_files

FILES = {
    "train.py": "import json, numpy\nimport helper\nfrom pkg.deep import thing\n",
    "helper.py": "def f():\n    import late\n",
    "late.py": "",
    "unused.py": "",
    "pkg/__init__.py": "",
    "pkg/deep.py": "from . import near\n",
    "pkg/near.py": "from .. import nothing\n",
    "pkg/__main__.py": "from pkg import deep\n",
    "run.sh": "python train.py\n",
    "data/a.csv": "1\n",
    "data/b.csv": "2\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(folder: Path, command: object, *files: str) -> list[str]:
    return sorted(source_files(ScriptConfig(command=command, folder=str(folder), files=list(files))))


def test_a_python_script_counts_with_everything_local_that_it_imports(folder: Path) -> None:
    expected = ["helper.py", "late.py", "pkg/__init__.py", "pkg/deep.py", "pkg/near.py", "train.py"]
    assert names(folder, "python train.py --lr {lr}") == expected
    assert names(folder, ["torchrun", "--nproc-per-node", 2, "train.py"]) == expected


def test_a_module_a_shell_script_and_data_count(folder: Path) -> None:
    assert names(folder, "python -m pkg") == ["pkg/__init__.py", "pkg/__main__.py", "pkg/deep.py", "pkg/near.py"]
    assert names(folder, "bash run.sh {seed}", "data/*.csv") == ["data/a.csv", "data/b.csv", "run.sh"]
    assert names(folder, "true") == []
    called = ScriptConfig(function="pkg.near:train", folder=str(folder))
    assert sorted(source_files(called)) == ["pkg/__init__.py", "pkg/near.py"]


def test_any_changed_byte_changes_one_hash(folder: Path) -> None:
    script = ScriptConfig(command="python train.py", folder=str(folder), files=["data/*"])
    before = source_files(script)
    for name in before:
        path = folder / name
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        now = source_files(script)
        assert [key for key in before if before[key] != now[key]] == [name]
        path.write_bytes(content)
    assert source_files(script) == before


def test_a_pattern_without_files_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"no file matches 'dta/\*'") as error:
        names(folder, "true", "dta/*")
    assert error.value.where == "script.files"
