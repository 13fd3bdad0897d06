"""The files and packages that decide which run of a script it is: what makes new runs, and what is said about it."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from script_runs import experiment, runs_of

from plat.spec.expansion.experiment import load_experiments
from plat.store.home import Home
from plat.trainer.script.config import ScriptRunConfig
from plat.trainer.script.source_files import source_files
from plat.trainer.script.spec import ScriptTrainer

Verb = Callable[..., tuple[int, str, str]]


def test_a_changed_file_makes_new_runs_and_is_named(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text("import helper\nprint('{\"loss\": 1}')\n")
    (project / "helper.py").write_text("")
    (project / "data.txt").write_text("1\n")
    path = experiment(project, "python train.py {lr}", "script.files: [data.txt]", lr=[0.1, 0.2])
    assert plat("sweep", path)[0] == 0 and "Nothing to do" in plat("plan", path)[1]
    path.write_text(path.read_text() + "# a comment\n")
    assert "Nothing to do" in plat("plan", path)[1]
    for name in ("train.py", "helper.py", "data.txt"):
        before = (project / name).read_text()
        (project / name).write_text(before + "new = 1\n")
        _, out, err = plat("plan", path)
        assert f"{name} changed since 2 runs of these configs were made, so they are made again\n" in out + err
        assert "2 of 2 runs to do" in out
        (project / name).write_text(before)
    assert "Nothing to do" in plat("plan", path)[1] and len(runs_of(project)) == 2


def test_comments_and_layout_of_code_make_no_new_runs(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text("import helper\nprint('{\"loss\": 1}')\n")
    (project / "helper.py").write_text("rate = 1\n")
    path = experiment(project, "python train.py")
    assert plat("sweep", path)[0] == 0
    (project / "helper.py").write_text("# new\nrate = (  1\n)\n")
    code, out, err = plat("plan", path)
    assert code == 0 and "Nothing to do" in out and "changed" not in out + err
    (project / "helper.py").write_text("rate = 1.0\n")
    assert "helper.py changed since 1 run " in "".join(plat("plan", path)[1:])


def test_a_run_of_0_4_keeps_its_id_while_the_bytes_of_its_files_are_the_same(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text("import helper\nprint('{\"loss\": 1}')\n")
    (project / "helper.py").write_text("rate = 1\n")
    path = experiment(project, "python train.py {lr}", lr=[0.1, 0.2])

    def as_0_4(self: ScriptTrainer, config: ScriptRunConfig) -> dict[str, str]:
        return dict(source_files(config).earlier)

    with pytest.MonkeyPatch.context() as context:
        context.setattr(ScriptTrainer, "source_files", as_0_4)
        assert plat("sweep", path)[0] == 0
    made = set(Home(project / "plat-home").run_ids())
    assert made.isdisjoint(run.id for run in load_experiments([path])[0].runs)
    code, out, err = plat("plan", path)
    assert code == 0 and "Nothing to do: all 2 runs are done" in out and "changed" not in out + err
    assert {run["id"] for run in json.loads(plat("plan", path, "--json")[1])["runs"]} == made
    (project / "helper.py").write_text("rate = 2\n")
    _, out, err = plat("plan", path)
    assert "helper.py changed since 2 runs of these configs were made" in out + err and "train.py changed" not in err
    assert plat("sweep", path)[0] == 0 and len(runs_of(project)) == 4
    (project / "helper.py").write_text("rate = 1\n")
    assert {run["id"] for run in json.loads(plat("plan", path, "--json")[1])["runs"]} == made


def test_a_command_whose_files_are_unknown_says_so_at_every_plan_and_sweep(plat: Verb, project: Path) -> None:
    path = experiment(project, """echo '{"loss": 1}' """)
    note = "no file of this command is followed: a changed program gives no new runs; name its files with script.files"
    for verb in ("plan", "sweep", "plan"):
        code, out, err = plat(verb, path)
        assert code == 0 and (out + err).count(note) == 1
    (project / "train.sh").write_text('echo {\\"loss\\": 1}\n')
    _, out, err = plat("plan", experiment(project, "sh train.sh"))
    assert note not in out + err


def test_all_files_of_a_run_are_listed(plat: Verb, project: Path) -> None:
    for number in range(8):
        (project / f"a{number}.py").write_text("")
    (project / "train.py").write_text("".join(f"import a{number}\n" for number in range(8)))
    path = experiment(project, "python train.py")
    assert "code: train.py, a0.py, a1.py, a2.py, a3.py and 4 more\n" in plat("plan", path)[1]
    assert "a7.py" in plat("plan", path, "-v")[1]
    assert json.loads(plat("plan", path, "--json")[1])["experiments"][0]["code"][:2] == ["train.py", "a0.py"]


def test_another_version_of_an_imported_package_is_named(
    plat: Verb, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = project / "site-packages"

    def install(version: str) -> None:
        shutil.rmtree(site, ignore_errors=True)
        (site / f"demopack-{version}.dist-info").mkdir(parents=True)
        (site / f"demopack-{version}.dist-info" / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: demopack\nVersion: {version}\n"
        )
        (site / "demopack.py").write_text("")
        importlib.invalidate_caches()

    install("1.4.0")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    (project / "t.py").write_text("import demopack, json\nprint('{\"loss\": 1}')\n")
    path = experiment(project, "python t.py {lr}", lr=[1, 2])
    assert plat("sweep", path)[0] == 0
    note = "demopack 1.4.0 → 0.29.1 since 2 runs were made"
    _, out, err = plat("plan", path)
    assert "since" not in out + err
    time.sleep(0.1)
    install("0.29.1")
    _, out, err = plat("plan", path)
    assert note in out + err and "Nothing to do" in out
    path = experiment(project, "python t.py {lr}", "script.packages: true", lr=[1, 2])
    _, out, err = plat("plan", path)
    assert "2 missing" in out and plat("sweep", path)[0] == 0 and "2 done" in plat("plan", path)[1]
    time.sleep(0.1)
    install("0.30.0")
    assert "2 missing" in plat("plan", path)[1]
