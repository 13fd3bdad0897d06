"""`--allow-import` lets files name a trainer that no package publishes; its module is found beside them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from beside import trainer_text
from fresh_plat import fresh_plat

from plat.dispatch.ray.jobs import INHERITED
from plat.plugins.loading import ALLOW_IMPORT, FOLDERS
from plat.store.home import Home

LINES = (
    "import beside_helper  # found in the process of the run, too",
    "assert 'BESIDE_FAILS' not in os.environ",
    "io.log(1, {'val/success': beside_helper.value(config.seed)})",
)
HELPER = "def value(seed):\n    return seed / 4\n"
FILE = "title: Own\nbase: {{trainer: '{module}:Own'}}\nmatrix: {{seed: [0, 1]}}\n"


def project(folder: Path, module: str = "beside_own_trainer", name: str = "own.yaml") -> Path:
    """Write an experiment file with its trainer beside it, and return the file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(trainer_text(module, *LINES))
    (folder / "beside_helper.py").write_text(HELPER)
    (folder / name).write_text(FILE.format(module=module))
    return folder / name


@pytest.fixture(autouse=True)
def nothing_is_allowed(tmp_path, monkeypatch):
    """No flag and no path of modules; the working directory is not that of any file."""
    for name in ("PLAT_ALLOW_IMPORT", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def process(monkeypatch):
    """Run `plat` as a separate process."""
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return fresh_plat(*arguments, cwd=Path.cwd())

    return run


def test_a_sweep_finds_the_module_beside_the_file_in_every_process(process, tmp_path, home):
    path = project(tmp_path / "mine")
    for verb in ("plan", "sweep"):
        refused = process(verb, path)
        assert refused.returncode == 2 and "add --allow-import" in refused.stderr and not home.exists()
    assert "then runs the module beside_own_trainer" in process("plan", path).stderr
    done = process("sweep", path, "--allow-import")
    assert done.returncode == 0 and [run.result.exists() for run in Home(home).all_runs()] == [True, True], done.stderr
    assert "2 of 2 runs to do" not in process("plan", path, "--allow-import").stdout


def test_a_flag_finds_the_module_beside_the_file_as_well(process, tmp_path):
    path = project(tmp_path / "mine")
    assert "2 of 2 runs to do" in process("plan", path, "--allow-import").stdout
    os.chdir(path.parent)
    assert "code: beside_own_trainer.py\n" in process("plan", "own.yaml", "--allow-import").stdout


def test_two_folders_with_different_modules_of_one_name_need_two_commands(process, tmp_path):
    first, second = project(tmp_path / "first"), project(tmp_path / "second", name="other.yaml")
    assert process("plan", first, second, "--allow-import").returncode == 0, "the files are the same"
    (second.parent / "beside_helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    done = process("plan", first, second, "--allow-import")
    assert done.returncode == 2 and f"at: {second.parent / 'beside_helper.py'}" in done.stderr


def test_a_run_and_options_find_the_module_in_the_working_directory(plat, tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / "mine", "beside_typed").parent)
    for asked in (
        ("options", "seed", "--trainer", "beside_typed:Own"),
        ("run", "trainer=beside_typed:Own", "nonsense=1"),
    ):
        code, _, err = plat(*asked)
        assert code == 2 and "add --allow-import" in err
    assert plat("options", "seed", "--trainer", "beside_typed:Own", "--allow-import")[0] == 0
    code, _, err = plat("run", "trainer=beside_typed:Own", "nonsense=1", "--allow-import")
    assert code == 2 and "nonsense" in err


def test_a_retry_of_a_run_by_its_name_finds_the_module_in_the_working_directory(process, tmp_path, home, monkeypatch):
    path = project(tmp_path / "mine")
    path.write_text(path.read_text().replace("[0, 1]", "[0]"))
    monkeypatch.setenv("BESIDE_FAILS", "1")
    assert process("sweep", path, "--allow-import").returncode == 3
    (run,) = Home(home).all_runs()
    monkeypatch.delenv("BESIDE_FAILS")
    refused = process("retry", run.id)
    assert refused.returncode == 2 and "--allow-import" in refused.stderr
    monkeypatch.chdir(path.parent)
    done = process("retry", run.id, "--allow-import")
    assert done.returncode == 0 and run.result.exists(), done.stdout + done.stderr


def test_what_a_command_allows_reaches_ray():
    assert ALLOW_IMPORT.startswith(INHERITED) and FOLDERS.startswith(INHERITED)
