"""`plat export` and `plat import` as a user meets them: the report of a bundle is the report, byte for byte.

Also homes that are copied and moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

EXPERIMENT = """
title: A test
paper: toy
source: Table 1
base: {trainer: toy_hill_climber, climb.games: 5, climb.iterations: 4}
matrix:
  policy: [wild, climber]
  seed: [0, 1, 2]
report:
  - builder: toy_success_by_policy
  - {builder: learning_curves, columns: policy, pair: policy, baseline: wild, metrics: [val/success, toy/chance]}
"""


@pytest.fixture
def plat(plat, nothing_named, monkeypatch, tmp_path):
    """Run a verb in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)
    return plat


@pytest.fixture(scope="module")
def finished(toy_paper, empty_store, tmp_path_factory) -> Path:
    """The home `here` with a finished sweep of small.yaml, and an empty home `there`, both with a store."""
    folder = tmp_path_factory.mktemp("finished")
    for name in ("here", "there"):
        (folder / name).mkdir()
        shutil.copy(empty_store, folder / name / "mlflow.db")
    (folder / "small.yaml").write_text(EXPERIMENT)
    (folder / "papers").mkdir()
    (folder / "papers" / "toy.yaml").write_text("title: A toy\n")
    environment = {key: value for key, value in os.environ.items() if key not in ("PLAT_HOME", "MLFLOW_TRACKING_URI")}
    environment["PYTHONPATH"] = os.pathsep.join([str(toy_paper), os.environ.get("PYTHONPATH", "")])
    done = fresh_plat("sweep", "small.yaml", "--home", "here", cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def swept(plat, finished, toy_paper, monkeypatch, tmp_path):
    """A copy of `finished` that a test may change, with the toy paper's plug-ins published."""
    monkeypatch.syspath_prepend(str(toy_paper))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(toy_paper), os.environ.get("PYTHONPATH", "")]))
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_report_of_a_bundle_is_the_report(plat, swept):
    code, out, _ = plat("export", "small.yaml", "--home", "here", "--out", "bundle")
    assert (code, out) == (0, "6 runs exported to bundle\n")
    assert {"experiments/small.yaml", "experiments/papers/toy.yaml", "manifest.json"} < set(files(swept / "bundle"))
    code, out, err = plat("import", "bundle", "--home", "there")
    assert (code, err) == (0, "") and out.startswith("6 runs imported into")
    assert plat("report", "small.yaml", "--home", "here", "--out", "report-here")[0] == 0
    assert plat("report", "small.yaml", "--home", "there", "--out", "report-there")[0] == 0
    assert files(swept / "report-there") == files(swept / "report-here")
    assert len(files(swept / "report-here")) > 8
    assert (swept / "bundle" / "experiments" / "small.yaml").read_bytes() == (swept / "small.yaml").read_bytes()


def test_several_bundles_are_imported_when_all_can_be_read(plat, swept):
    for seed in (0, 1):
        plat("export", "small.yaml", f"matrix.seed=[{seed}]", "--home", "here", "--out", f"bundle-{seed}")
    code, _, err = plat("import", "bundle-0", "nowhere", "--home", "there")
    assert code == 2 and "no such bundle" in err and not files(swept / "there" / "runs")
    code, out, _ = plat("import", "bundle-0", "bundle-1", "--home", "there")
    assert code == 0 and out.count("of bundle-") == 2
    runs = json.loads(plat("plan", "small.yaml", "matrix.seed=[0,1]", "--home", "there", "--json")[1])["runs"]
    assert {run["state"] for run in runs} == {"done"}


def test_the_report_is_the_same_under_another_locale_time_zone_and_hash_seed(swept):
    for number, (locale, zone) in enumerate([("C", "Pacific/Apia"), ("C.utf8", "Asia/Kathmandu")]):
        environment = os.environ | {"LC_ALL": locale, "TZ": zone, "PYTHONHASHSEED": str(number)}
        command = [sys.executable, "-m", "plat", "report", "small.yaml", "--home", "here", "--out", f"report-{number}"]
        done = subprocess.run(command, cwd=swept, env=environment, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
    assert files(swept / "report-0") == files(swept / "report-1")
    assert {Path(name).suffix for name in files(swept / "report-0")} >= {
        ".html",
        ".svg",
        ".pdf",
        ".png",
        ".tex",
        ".csv",
    }


def test_the_pages_command_works_where_it_was_given(plat, swept, monkeypatch):
    (swept / "deep" / "er").mkdir(parents=True)
    for folder, name in (("", "small.yaml"), ("deep/er", "../../small.yaml")):
        monkeypatch.chdir(swept / folder)
        assert plat("report", name, "--home", swept / "here", "--out", swept / "report")[0] == 0
        assert f">plat report {name}<" in (swept / "report" / "report.html").read_text()
    assert plat("report", swept / "small.yaml", "--home", swept / "here", "--out", swept / "report")[0] == 0
    assert ">plat report ../../small.yaml<" in (swept / "report" / "report.html").read_text()


def test_a_report_says_which_runs_are_no_longer_in_the_home(plat, swept):
    assert "removed" not in plat("report", "small.yaml", "--home", "here")[1]
    gone = next((swept / "here" / "runs").glob("*/*"))
    shutil.rmtree(gone)
    code, out, _ = plat("report", "small.yaml", "--home", "here")
    assert code == 0 and f"1 of 6 runs ({gone.name[:8]}) were removed from the home" in out
    assert "were removed from the home" in (swept / "here/reports/small/report.html").read_text()
    assert plat("sweep", "small.yaml", "--home", "here")[0] == 0
    assert "removed" not in plat("report", "small.yaml", "--home", "here")[1]


def test_imported_runs_are_done_for_every_verb(plat, swept):
    plat("export", "small.yaml", "--home", "here", "--out", "bundle")
    plat("import", "bundle", "--home", "there")
    runs = json.loads(plat("plan", "small.yaml", "--home", "there", "--json")[1])["runs"]
    assert [run["state"] for run in runs] == ["done"] * 6
    assert "6 done" in plat("status", "small.yaml", "--home", "there")[1]
    code, out, _ = plat("why", runs[0]["id"], "--home", "there")
    assert code == 0 and "finished" in out
    before = files(swept / "there" / "runs")
    code, out, _ = plat("sweep", "small.yaml", "--home", "there")
    assert code == 0 and "started" not in out
    assert files(swept / "there" / "runs") == before
    assert "6 up to date already" in plat("sync", "--home", "there")[1]


def test_an_incomplete_export_says_so(plat, swept):
    shutil.rmtree(next((swept / "here" / "runs").glob("*/*")))
    code, out, err = plat("export", "small.yaml", "--home", "here", "--out", "bundle")
    assert code == 3 and "5 runs exported" in out and "1 run of these files is not in the bundle" in err
    assert "missing" in err


def test_an_export_without_any_whole_run_names_the_damaged_ones(plat, swept):
    first, *others = sorted((swept / "here" / "runs").glob("*/*"))
    for other in others:
        shutil.rmtree(other)
    config = first / "config.yaml"
    config.write_text(config.read_text() + "extra: 1\n")
    name = json.loads((first / "meta.json").read_text())["name"]
    code, out, err = plat("export", "small.yaml", "--home", "here", "--out", "bundle")
    assert (code, out) == (2, "") and len(err.splitlines()) == 3
    assert name in err and "config.yaml differs from the config that the run" in err and "5 missing" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "small.yaml", "--home", "here"], "--out DIR"),
        (["export", "small.yaml", "--home", "there", "--out", "bundle"], "there is no home here"),
        (["export", "small.yaml", "--home", "here", "--out", "papers"], "in the way"),
        (["export", "--home", "here", "--out", "bundle"], "no experiment file"),
        (["import", "papers", "--home", "there"], "not a bundle"),
        (["import", "nowhere", "--home", "there"], "no such bundle"),
        (["import", "small.yaml", "--home", "there"], "this is a file"),
    ],
)
def test_bad_input_is_one_message(plat, swept, arguments, message):
    before = files(swept / "papers"), files(swept / "there" / "runs")
    code, out, err = plat(*arguments)
    assert (code, out) == (2, "") and message in err and len(err.splitlines()) <= 3
    assert (files(swept / "papers"), files(swept / "there" / "runs")) == before
    assert not (swept / "bundle").exists()


def test_a_store_that_goes_away_fails_no_run(plat, swept, empty_store, monkeypatch):
    """The runs go on; then it is said that they are done, and what brings their results in. Exit code 2, not 3."""
    from plat.app import sweeping

    def lose_the_store(*arguments, **options):
        open_store(*arguments, **options)
        (swept / "there" / "mlflow.db").write_bytes(b"nonsense" * 1000)

    open_store = sweeping.open_store
    monkeypatch.setattr(sweeping, "open_store", lose_the_store)
    code, _, err = plat("sweep", "small.yaml", "--home", "there")
    assert code == 2 and "6 of 6 runs are done, but the store could not be brought up to date" in err
    assert "plat sync" in err
    (swept / "there" / "mlflow.db").unlink()
    shutil.copy(empty_store, swept / "there" / "mlflow.db")
    assert plat("sync", "--home", "there")[0] == 0


def test_a_copied_home_and_its_original_are_independent(plat, swept):
    shutil.copytree(swept / "here", swept / "copy")
    before = files(swept / "here" / "mlartifacts") | files(swept / "here" / "reports")
    (swept / "small.yaml").write_text(EXPERIMENT.replace("A test", "Another title"))
    code, out, _ = plat("sweep", "small.yaml", "--home", "copy")
    assert code == 0 and "copy/reports/small" in out and "started" not in out
    assert files(swept / "here" / "mlartifacts") | files(swept / "here" / "reports") == before
    pages = list((swept / "copy" / "mlartifacts").rglob("report.html"))
    assert [b"Another title" in page.read_bytes() for page in pages] == [True]


def test_a_moved_home_goes_on(plat, swept):
    shutil.rmtree(swept / "there")
    shutil.move(swept / "here", swept / "there")
    code, out, _ = plat("sweep", "small.yaml", "matrix.seed=range(4)", "--home", "there", "-v")
    assert code == 0 and out.count("started") == 2
    assert not (swept / "here").exists()
    assert len(list((swept / "there" / "mlartifacts").rglob("config.yaml"))) == 8


def test_runs_of_a_trainer_that_is_not_here_are_reported_from_their_bundle(
    plat, nothing_named, empty_store, monkeypatch, tmp_path
):
    """Importing `plat_toy:Toy` is allowed only where the runs are made."""
    monkeypatch.chdir(tmp_path)
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        shutil.copy(empty_store, tmp_path / name / "mlflow.db")
    text = "title: t\nbase: {trainer: 'plat_toy:Toy'}\nmatrix: {train.iterations: [4, 5], seed: [0, 1, 2]}\n"
    Path("toy.yaml").write_text(text)
    assert plat("sweep", "toy.yaml", "--home", "here")[0] == 0
    assert plat("export", "toy.yaml", "--out", "bundle", "--home", "here")[0] == 0
    monkeypatch.setenv("PLAT_ALLOW_IMPORT", "0")
    file = "bundle/experiments/toy.yaml"
    code, _, err = plat("report", file, "--home", "there")
    assert (
        code == 2 and "this home has no run of train.iterations=4, seed=0" in err and "`plat import` its bundle" in err
    )
    assert plat("import", "bundle", "--home", "there")[0] == 0
    code, out, err = plat("report", file, "--home", "there")
    assert code == 0 and "train.iterations = 5" in out, err
    for name in ("effect_of_train.iterations.csv", "runs.csv", "learning_curves_success.png", "estimates.json"):
        assert (tmp_path / "here/reports/toy" / name).read_bytes() == (
            tmp_path / "there/reports/toy" / name
        ).read_bytes()
    assert plat("status", file, "--home", "there")[1].startswith("toy: 6 done of 6")
    code, _, err = plat("sweep", file, "--home", "there")
    assert code == 2 and "--allow-import" in err
