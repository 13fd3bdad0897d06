"""The files of a script that are part of a run's identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.errors import SpecError
from plat.plugins.plugin_code import NamedFiles
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.source_files import source_files as files_of_run

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


def source_files(script: ScriptConfig, **args: object) -> NamedFiles:
    return files_of_run(ScriptRunConfig(script=script, args=args))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def names(folder: Path, command: object, *files: str, **args: object) -> list[str]:
    return sorted(source_files(ScriptConfig(command=command, folder=str(folder), files=list(files)), **args))


def test_a_python_script_counts_with_everything_local_that_it_imports(folder: Path) -> None:
    expected = ["helper.py", "late.py", "pkg/__init__.py", "pkg/deep.py", "pkg/near.py", "train.py"]
    assert names(folder, "python train.py --lr {lr}") == expected
    assert names(folder, ["torchrun", "--nproc-per-node", 2, "train.py"]) == expected


def test_a_module_a_shell_script_and_data_count(folder: Path) -> None:
    assert names(folder, "python -m pkg") == ["pkg/__init__.py", "pkg/__main__.py", "pkg/deep.py", "pkg/near.py"]
    assert {"data/a.csv", "data/b.csv", "run.sh", "train.py"} <= set(names(folder, "bash run.sh {seed}", "data/*.csv"))
    assert names(folder, "true") == []
    called = ScriptConfig(function="pkg.near:train", folder=str(folder))
    assert sorted(source_files(called)) == ["pkg/__init__.py", "pkg/near.py"]


def test_any_change_of_code_or_data_changes_one_hash(folder: Path) -> None:
    script = ScriptConfig(command="python train.py", folder=str(folder), files=["data/*"])
    before = source_files(script)
    for name in before:
        path = folder / name
        content = path.read_bytes()
        path.write_bytes(content + b"\nx = 1\n")
        now = source_files(script)
        assert [key for key in before if before[key] != now[key]] == [name]
        assert [key for key in before if before.earlier[key] != now.earlier[key]] == [name]
        path.write_bytes(content + b"\n# comment\n")
        now = source_files(script)
        assert [key for key in before if before[key] != now[key]] == ([name] if name.endswith(".csv") else [])
        assert [key for key in before if before.earlier[key] != now.earlier[key]] == [name]
        path.write_bytes(content)
    assert source_files(script) == before


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'python train.py {x}'",
        "bash -lc 'cd . && python train.py | cat; true'",
        "env A=1 python train.py",
        "A=1 python train.py",
        "torchrun --nproc-per-node 2 train.py",
        "accelerate launch --num_processes 1 train.py",
        "env -C data python ../train.py",
        "env --chdir=data python ../train.py",
        "python {x}.py",
        "bash -c 'cd data; python ../train.py'",
        ["sh", "-ec", "python train.py"],
    ],
)
def test_a_script_is_found_wherever_a_command_names_it(folder: Path, command: object) -> None:
    expected = ["helper.py", "late.py", "pkg/__init__.py", "pkg/deep.py", "pkg/near.py", "train.py"]
    assert names(folder, command, x="train") == expected


@pytest.mark.parametrize(
    "line",
    [
        "exec(open('src/part.py').read())",
        "runpy.run_path('src/part.py')",
        "subprocess.run([sys.executable, 'src/part.py'], check=True)",
        "importlib.import_module('src.part')",
    ],
)
def test_scripts_that_a_script_names_as_a_text_count(folder: Path, line: str) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "part.py").write_text("import near\n")
    (folder / "near.py").write_text("")
    (folder / "outer.py").write_text(f"import importlib, runpy, subprocess, sys\n{line}\n")
    assert {"src/part.py", "outer.py"} <= set(names(folder, "python outer.py"))


def test_what_a_shell_script_runs_counts(folder: Path) -> None:
    (folder / "run.sh").write_text("#!/bin/sh\n# a comment\nset -e\npython train.py --lr $1\nbash again.sh\n")
    (folder / "again.sh").write_text("bash run.sh\n")
    expected = {"run.sh", "again.sh", "train.py", "helper.py"}
    assert expected <= set(names(folder, "bash run.sh {x}", x="1")) and expected <= set(names(folder, "./run.sh"))


def test_a_config_counts_after_an_equals_sign_and_with_the_values_of_the_run(folder: Path) -> None:
    assert "data/a.csv" in names(folder, "tool --config=data/a.csv")
    assert names(folder, "tool --config=data/{x}.csv", x="b") == ["data/b.csv"]
    assert names(folder, "tool --config data/{x}.csv", x="a") == ["data/a.csv"]
    assert names(folder, "tool +config={x}", x="data/a.csv") == ["data/a.csv"]
    assert names(folder, "tool data", "data/*") == ["data/a.csv", "data/b.csv"]


@pytest.mark.parametrize(
    "line",
    [
        'sys.path.insert(0, "src")',
        'sys.path.append("./src")',
        'sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))',
        'sys.path.append(str(Path(__file__).resolve().parent / "src"))',
        'sys.path.extend(["src"])',
        'sys.path.insert(0, str(Path(__file__).parents[0].joinpath("src")))',
    ],
)
def test_folders_that_a_script_adds_to_its_path_are_searched(folder: Path, line: str) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "deeper.py").write_text("")
    (folder / "new.py").write_text(f"import os, sys\nfrom pathlib import Path\n{line}\nimport deeper\n")
    assert names(folder, "python new.py") == ["new.py", "src/deeper.py"]
    assert "src/deeper.py" not in source_files(ScriptConfig(command="python new.py", folder=str(folder))).earlier
    (folder / "plain.py").write_text("import deeper\n")
    assert names(folder, "PYTHONPATH=src python plain.py") == ["plain.py", "src/deeper.py"]


def test_code_outside_of_the_folder_counts_and_data_and_programs_do_not(folder: Path) -> None:
    inside = folder / "data"
    command = f"/bin/sh ../run.sh ../train.py ../{folder.name} ../data/a.csv {folder}/unused.py"
    (folder / "weights.bin").write_text("")
    found = names(inside, f"{command} ../weights.bin")
    assert {"../run.sh", "../train.py", "../helper.py", "../unused.py", "a.csv"} <= set(found)
    assert "../weights.bin" not in found and not [name for name in found if "bin/sh" in name]


def test_configs_of_hydra_and_the_modules_that_they_name_count(folder: Path) -> None:
    for name, text in {
        "app.py": 'import hydra\n@hydra.main(config_path="conf", config_name="main")\ndef f(c): ...\n',
        "conf/main.yaml": "defaults: [model: a]\n",
        "conf/model/a.yaml": "_target_: pkg.net.Net\nlr: 1\n",
        "conf/outputs/old.yaml": "",
        "conf/.hydra/config.yaml": "",
        "conf/mine.yaml": "base: {script.command: x}\n",
        "pkg/net.py": "from pkg import layers\nclass Net: ...\n",
        "pkg/layers.py": "",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text)
    expected = ["app.py", "conf/main.yaml", "conf/model/a.yaml", "pkg/__init__.py", "pkg/layers.py", "pkg/net.py"]
    assert names(folder, "python app.py") == expected
    assert names(folder, "python app.py model.lr={x}", x=3) == expected


def test_the_script_of_the_user_comes_first(folder: Path) -> None:
    assert next(iter(source_files(ScriptConfig(command="python train.py", folder=str(folder))))) == "train.py"


def test_a_pattern_without_files_is_refused(folder: Path) -> None:
    with pytest.raises(SpecError, match=r"no file matches 'dta/\*'") as error:
        names(folder, "true", "dta/*")
    assert error.value.where == "script.files"
