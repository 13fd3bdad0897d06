"""Files of a trusted folder name their trainer without a flag, and its module is found beside them."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from beside import trainer_text

import plat.api as api
from plat.app.trusting import trust
from plat.dispatch.ray.ray_dispatcher import INHERITED
from plat.errors import UnknownTrainer
from plat.store.home import Home
from plat.trainer.code_folders import FOLDERS
from plat.trainer.permission import TRUSTED

LINES = (
    "import trusted_helper  # found in the process of the run, too",
    "assert 'TRUSTED_FAILS' not in os.environ",
    "io.log(1, {'val/success': trusted_helper.value(config.seed)})",
)
HELPER = "def value(seed):\n    return seed / 4\n"
FILE = "title: Own\nbase: {{trainer: '{module}:SPEC'}}\nmatrix: {{seed: [0, 1]}}\n"


def project(folder: Path, module: str = "trusted_trainer", name: str = "own.yaml") -> Path:
    """Write an experiment file with its trainer beside it, and return the file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(trainer_text(module, *LINES))
    (folder / "trusted_helper.py").write_text(HELPER)
    (folder / name).write_text(FILE.format(module=module))
    return folder / name


@pytest.fixture(autouse=True)
def nothing_is_allowed(tmp_path, monkeypatch):
    """No flag and no path of modules; the working directory is not that of any file."""
    for name in ("PLAT_ALLOW_IMPORT", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def process(monkeypatch):
    """Run `plat` as a separate process."""
    monkeypatch.setenv("COLUMNS", "400")

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "plat", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return run


def test_a_sweep_of_a_trusted_file_needs_no_flag_and_no_path(process, tmp_path, home):
    path = project(tmp_path / "mine")
    refused = process("plan", path)
    assert refused.returncode == 2 and f"{path}:2:17" in refused.stderr
    advice = refused.stderr.partition("`")[2].partition("`")[0]
    assert advice == f"plat trust {path.parent}" and "--allow-import" in refused.stderr
    assert process(*shlex.split(advice)[1:]).returncode == 0

    planned = process("plan", path)
    assert "2 of 2 runs to do" in planned.stdout, planned.stderr
    assert f"code: {path.parent / 'trusted_trainer.py'}\n" in planned.stdout
    done = process("sweep", path)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = list(Home(home).all_runs())
    assert len(runs) == 2 and all(run.result.exists() for run in runs)
    assert "Nothing to do" in process("plan", path).stdout
    (path.parent / "trusted_helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    changed = process("plan", path)
    assert "2 of 2 runs to do" in changed.stdout and "trusted_helper.py changed" in changed.stderr


def test_a_flag_finds_the_module_beside_the_file_as_well(process, tmp_path):
    path = project(tmp_path / "mine")
    assert "2 of 2 runs to do" in process("plan", path, "--allow-import").stdout
    os.chdir(path.parent)
    assert "code: trusted_trainer.py\n" in process("plan", "own.yaml", "--allow-import").stdout


def test_one_file_outside_takes_the_permission_from_all(plat, tmp_path):
    inside = project(tmp_path / "inside", "trusted_inside", "one.yaml")
    outside = project(tmp_path / "outside", "trusted_outside", "two.yaml")
    assert plat("trust", inside.parent)[0] == 0
    assert plat("plan", inside)[0] == 0
    for files in ((inside, outside), (outside, inside), (outside,)):
        code, _, err = plat("plan", *files)
        assert code == 2 and f"`plat trust {outside.parent}`" in err, "the folder that is missing is named"
    assert plat("trust", outside.parent)[0] == 0
    (outside.parent / "trusted_helper.py").write_text(HELPER)
    assert plat("plan", inside, outside)[0] == 0
    assert plat("trust", "--remove", outside.parent)[0] == 0
    assert plat("plan", inside, outside)[0] == 2


def test_a_report_of_several_files_imports_nothing_before_all_are_known(plat, tmp_path):
    inside = project(tmp_path / "inside", "trusted_marks", "one.yaml")
    outside = project(tmp_path / "outside", "trusted_other", "two.yaml")
    with open(inside.parent / "trusted_marks.py", "a") as module:
        module.write(f"\nopen({str(tmp_path / 'was-imported')!r}, 'w').close()\n")
    assert plat("trust", inside.parent)[0] == 0
    plat("report", inside, outside)
    assert not (tmp_path / "was-imported").exists()


def test_links_do_not_carry_trust(plat, tmp_path):
    """Neither a link in a trusted folder to a file elsewhere, nor a link elsewhere to a trusted file."""
    mine, theirs = project(tmp_path / "mine"), project(tmp_path / "theirs", name="bad.yaml")
    assert plat("trust", mine.parent)[0] == 0
    (mine.parent / "link.yaml").symlink_to(theirs)
    (theirs.parent / "link.yaml").symlink_to(mine)
    (tmp_path / "through").symlink_to(mine.parent)
    code, _, err = plat("plan", mine.parent / "link.yaml")
    assert code == 2 and f"plat trust {theirs.parent}" in " ".join(err.split())
    assert plat("plan", theirs.parent / "link.yaml")[0] == 2
    assert plat("plan", tmp_path / "through" / "own.yaml")[0] == 0, "a link to the folder is the folder"
    (mine.parent / "loop.yaml").symlink_to("loop.yaml")
    code, _, err = plat("plan", mine, mine.parent / "loop.yaml")
    assert code == 2 and "loop.yaml" in err and "mistake in plat" not in err


def test_two_folders_with_different_modules_of_one_name_need_two_commands(process, tmp_path):
    first, second = project(tmp_path / "first"), project(tmp_path / "second", name="other.yaml")
    assert process("plan", first, second, "--allow-import").returncode == 0, "the files are the same"
    (second.parent / "trusted_helper.py").write_text(HELPER.replace("/ 4", "/ 2"))
    done = process("plan", first, second, "--allow-import")
    assert done.returncode == 2 and f"at: {second.parent / 'trusted_helper.py'}" in done.stderr


def test_a_run_without_a_file_counts_as_one_of_the_working_directory(plat, tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / "mine", "trusted_typed").parent)
    code, _, err = plat("run", "trainer=trusted_typed:SPEC", "nonsense=1")
    assert code == 2 and "`plat trust .`" in err
    assert plat("trust", ".")[0] == 0
    code, _, err = plat("run", "trainer=trusted_typed:SPEC", "nonsense=1")
    assert code == 2 and "nonsense" in err and "plat trust" not in err


def test_options_of_a_trainer_in_a_trusted_working_directory(plat, tmp_path, monkeypatch):
    monkeypatch.chdir(project(tmp_path / "mine", "trusted_options").parent)
    asked = ("options", "seed", "--trainer", "trusted_options:SPEC")
    assert plat(*asked)[0] == 2
    assert plat("trust", ".")[0] == 0
    assert plat(*asked)[0] == 0


def test_a_retry_of_a_run_by_its_name_finds_the_module_in_the_working_directory(process, tmp_path, home, monkeypatch):
    path = project(tmp_path / "mine")
    path.write_text(path.read_text().replace("[0, 1]", "[0]"))
    monkeypatch.setenv("TRUSTED_FAILS", "1")
    assert process("sweep", path, "--allow-import").returncode == 3
    (run,) = Home(home).all_runs()
    monkeypatch.delenv("TRUSTED_FAILS")
    refused = process("retry", run.id)
    assert refused.returncode == 2 and "--allow-import" in refused.stderr and "plat trust" not in refused.stderr
    monkeypatch.chdir(path.parent)
    done = process("retry", run.id, "--allow-import")
    assert done.returncode == 0 and run.result.exists(), done.stdout + done.stderr


def test_folders_are_listed_and_removed(plat, tmp_path):
    assert "no folder is trusted" in plat("trust")[1]
    folder = project(tmp_path / "a folder").parent
    code, out, _ = plat("trust", folder)
    assert code == 0 and out.startswith(f"{folder} is trusted") and f"plat trust --remove '{folder}'" in out
    assert plat("trust", folder)[0] == 0
    assert plat("trust")[1] == f"{folder}\n"
    listed = json.loads(plat("trust", "--json")[1])
    assert listed == {"file": str(tmp_path / "config" / "plat" / "trusted-folders.txt"), "folders": [str(folder)]}
    assert plat("trust", "--remove")[0] == 2
    assert plat("trust", "--remove", folder)[0] == 0
    assert json.loads(plat("trust", "--json")[1])["folders"] == []
    (tmp_path / "config" / "plat" / "trusted-folders.txt").write_text("/" + "x" * 300 + "\n")
    assert plat("trust")[:2] == (0, "/" + "x" * 300 + " (it does not exist)\n"), "no folder can have this name"


def test_in_one_process_a_call_gets_no_trust_from_an_earlier_one(tmp_path, monkeypatch):
    """As in a notebook, where each call of `import plat` counts as a command."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv(FOLDERS, "[]")  # restored after the test
    inside = project(tmp_path / "inside", "trusted_by_api", "one.yaml")
    outside = project(tmp_path / "outside", "not_trusted_by_api", "two.yaml")
    trust(inside.parent)
    assert len(api.plan(inside).rows) == 2
    with pytest.raises(UnknownTrainer):
        api.plan(outside)
    assert len(api.plan(inside).rows) == 2


def test_what_a_command_allows_reaches_ray():
    assert TRUSTED.startswith(INHERITED) and FOLDERS.startswith(INHERITED)
