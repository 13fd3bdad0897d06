"""The command line as a user meets it: exit codes, messages, what is written and what is not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from plat.cli import evaluate, main, verbs
from plat.store.home import Home
from plat.store.mlflow.sqlite_creation import ensure_sqlite
from plat.store.run_directory import checkpoint
from plat.trainer.api import State

ROOT = Path(__file__).parents[2]
NO_HOME = ("options",)  # verbs that need no home
HEAVY = ("torch", "mlflow", "ray", "hydra", "pandas", "verl", "omegaconf", "rich", "numpy", "transformers")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home that does not exist yet, and no store of the environment's."""
    monkeypatch.setenv("PLAT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return tmp_path / "home"


@pytest.fixture
def plat(capfd):
    """Run a verb in this process: (exit code, stdout, stderr)."""

    def run(*arguments: object, traceback: bool = False) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert ("Traceback" in out + err) == traceback, out + err
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def spec(tmp_path):
    """Write an experiment file."""

    def write(text: str, name: str = "small.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


# -- starting ---------------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy():
    code = (
        "import sys\n"
        "from plat.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit as stop:\n    assert not stop.code\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "sweep" in done.stdout and "doctor" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("verb", verbs.VERBS)
def test_every_verb_explains_itself(plat, verb):
    code, out, _ = plat(verb, "--help")
    assert code == 0 and ("--home" in out) == (verb not in NO_HOME)


@pytest.mark.parametrize("verb", [*verbs.VERBS, *verbs.GROUPS])
def test_the_list_of_verbs_says_what_each_says_of_itself(verb):
    assert verbs.load(verb).get_short_help_str(limit=1000) == {**verbs.VERBS, **verbs.GROUPS}[verb].summary


def test_a_verb_imports_no_other(home):
    code = "import sys\nfrom plat.cli import main\ntry: main(['status'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = done.stdout.split()
    assert "plat.cli.status" in loaded and not {"plat.cli.doctor", "plat.cli.execution", "plat.cli.ui"} & {*loaded}


@pytest.mark.parametrize("verb", ["list", "build", "verify"])
def test_every_verb_about_bases_explains_itself(plat, verb):
    assert verb in plat("base", "--help")[1]
    code, out, _ = plat("base", verb, "--help")
    assert code == 0 and "Usage" in out


def test_help_says_every_exit_code(plat):
    words = " ".join(plat("--help")[1].split())
    assert "home or store that cannot be used" in words and "failed or are damaged" in words


def test_version(plat):
    assert plat("--version")[:2] == (0, "plat 0.2.0\n")


# -- bad input --------------------------------------------------------------------------------------------------------

GOOD = "title: A test\nbase: {scale: smoke}\nmatrix:\n  task: [frozenlake]\n  seed: [0]\n"
BAD_FILES = {
    "a misspelt key": ("title: A test\nmatrx:\n  seed: [0]\n", "matrix"),
    "a misspelt group option": (GOOD.replace("frozenlake", "frozenlak"), "frozenlake"),
    "a misspelt option": (GOOD + "  filter.epss: [0.1]\n", "filter.eps"),
    "a wrong type": (GOOD + "  train.iterations: [many]\n", "train.iterations"),
    "an empty axis": ("title: A test\nmatrix:\n  seed: []\n", "seed"),
    "the same key twice": ("title: A test\nmatrix:\n  seed: [0]\n  seed: [1]\n", "seed"),
    "no YAML at all": ("title: A test\nmatrix: [unclosed\n", ""),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_wrong_file_gets_three_lines_and_writes_nothing(plat, spec, home, case):
    text, hint = BAD_FILES[case]
    path = spec(text)
    for verb in ("plan", "sweep"):
        code, out, err = plat(verb, path)
        assert (code, out) == (2, "")
        lines = err.splitlines()
        assert lines[0].startswith("error: ") and len(lines) <= 3
        assert str(path) in err and hint in err
        assert not home.exists()


@pytest.mark.parametrize(("arguments", "expected"), [([], 0), (["run"], 2)])
def test_plat_and_run_without_arguments_print_their_help(plat, home, arguments, expected):
    """`plat run` trains nothing that nobody asked for."""
    code, out, err = plat(*arguments)
    assert (code, err) == (expected, "") and "Usage: plat" in out
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["plan"], "plat plan experiments/table4.yaml"),
        (["plan", "experiments/tabel4.yaml"], "tabel4.yaml"),
        (["plann", "experiments/table4.yaml"], "plann"),
        (["plan", "--jbos", "2", "x.yaml"], "--jbos"),
        (["sweep", "--jobs", "0", "x.yaml"], "--jobs"),
        (["run", "task=frozenlak"], "frozenlake"),
        (["run", "experiments/table4.yaml"], "plat sweep"),
        (["eval", "nothing-12345678"], "nothing-12345678"),
        (["logs", "nothing-12345678"], "plat status"),
        (["why", "nothing-12345678"], "nothing-12345678"),
    ],
)
def test_a_wrong_command_line_gets_a_message_and_writes_nothing(plat, home, arguments, hint, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, err = plat(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and len(err.splitlines()) <= 3
    assert hint in err
    assert not home.exists()


def test_a_wrong_override_names_itself(plat, spec, home):
    code, _, err = plat("sweep", spec(GOOD), "train.iterashuns=5")
    assert code == 2 and "train.iterashuns" in err and "train.iterations" in err
    assert not home.exists()


def test_a_product_of_a_million_runs_is_refused(plat, spec, home):
    code, _, err = plat("plan", spec(GOOD), "matrix.seed=range(1000000)")
    assert code == 2 and "100,000" in err.replace("100000", "100,000")


@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_a_home_that_is_a_file(plat, spec, tmp_path, verb):
    (tmp_path / "taken").write_text("")
    code, _, err = plat(verb, spec(GOOD), "--home", tmp_path / "taken")
    assert code == 2 and "home directory" in err and "--home" in err
    assert (tmp_path / "taken").read_text() == ""


def test_a_home_from_a_newer_version(plat, spec, home):
    home.mkdir()
    (home / "home.json").write_text('{"format": 99}')
    code, _, err = plat("sweep", spec(GOOD))
    assert code == 2 and "newer" in err
    assert [path.name for path in home.iterdir()] == ["home.json"]


@pytest.mark.parametrize("verb", ["plan", "sweep", "report"])
def test_a_file_cannot_write_outside_its_folder(plat, spec, home, verb):
    code, _, err = plat(verb, spec(GOOD, "...yaml"))
    assert code == 2 and "rename the file" in err and not home.exists()


def test_a_mistake_of_ours_is_one_line_and_a_file(plat, spec, monkeypatch, tmp_path):
    monkeypatch.setattr("plat.spec.experiment.load_experiment", lambda *_: 1 / 0)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    code, _, err = plat("plan", spec(GOOD))
    assert code == 1 and "ZeroDivisionError" in err and len(err.splitlines()) == 3
    saved = next(tmp_path.glob("plat-error-*.txt")).read_text()
    assert "Traceback" in saved and "plat plan" in saved


def test_a_full_disk_is_a_message(plat, spec, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/somewhere/events.jsonl")

    monkeypatch.setattr("plat.spec.experiment.load_experiment", full)
    code, _, err = plat("plan", spec(GOOD))
    assert code == 2 and "No space left" in err and "/somewhere/events.jsonl" in err


def test_a_closed_pipe_is_silent(spec):
    command = f"{sys.executable} -m plat plan {spec(GOOD)} 'matrix.seed=range(400)' -v | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1 and done.stderr == ""


# -- plan -------------------------------------------------------------------------------------------------------------


def test_plan_writes_nothing_and_speaks_json(plat, spec, home):
    code, out, _ = plat("plan", spec(GOOD), "matrix.seed=range(3)", "--json")
    assert code == 0
    runs = json.loads(out)["runs"]
    assert [run["axes"]["seed"] for run in runs] == [0, 1, 2]
    assert all(run["state"] == "missing" and len(run["id"]) == 16 and run["id"][:8] in run["name"] for run in runs)
    assert not home.exists()


def test_dry_run_is_plan(plat, spec, home):
    path = spec(GOOD)
    assert plat("sweep", path, "--dry-run")[:2] == plat("plan", path)[:2]
    assert not home.exists()


# -- sweep ------------------------------------------------------------------------------------------------------------

GUESSING = """
title: A test
base: {trainer: toy_hill_climber, climb.games: 5, climb.iterations: 2}
matrix:
  policy: [wild, climber]
  seed: [0]
report:
  - builder: toy_success_by_policy
"""


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """A new store: making one takes MLflow two seconds."""
    return ensure_sqlite(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


@pytest.fixture
def toy(toy_paper, empty_store, home, monkeypatch):
    """The toy trainer can be found, here and in worker processes; the home has an empty store."""
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    monkeypatch.syspath_prepend(str(toy_paper))
    monkeypatch.setenv("PYTHONPATH", str(toy_paper))


def results_of(home: Path) -> dict[str, int]:
    return {path.parent.name: path.stat().st_mtime_ns for path in home.glob("runs/*/result.json")}


def test_a_second_sweep_does_nothing_and_a_removed_run_is_redone_alone(plat, spec, home, toy):
    path = spec(GUESSING)
    code, first, err = plat("sweep", path)
    assert code == 0, err
    assert "climber" in first and "report.html" in first
    done = results_of(home)
    assert len(done) == 2

    code, again, _ = plat("sweep", path)
    assert code == 0 and again.startswith("nothing to do")
    assert results_of(home) == done
    table = first[first.index("A test") :]
    assert again.endswith(table)

    gone, kept = sorted(done)
    shutil.rmtree(home / "runs" / gone)
    code, out, _ = plat("sweep", path)
    assert code == 0 and out.count("started") == 1 and gone[:8] in out
    assert results_of(home).keys() == done.keys() and results_of(home)[kept] == done[kept]
    assert table in out


def test_python_without_assertions_does_the_same(spec, home, toy):
    path = spec(GUESSING)
    environment = {**os.environ, "PYTHONOPTIMIZE": "1"}
    for verb in ("plan", "sweep", "report", "status"):
        command = [sys.executable, "-m", "plat", verb, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0 and "climber" in done.stdout and not done.stderr, (verb, done.stderr)
    assert len(results_of(home)) == 2


def test_a_meta_file_of_another_shape_is_written_again(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    meta = next(home.glob("runs/*/meta.json"))
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "axes": 3, "checksum": None}))
    code, _, err = plat("retry", "--where", "seed=7")
    assert code in (0, 2) and "meta.json is missing or damaged" in err
    assert plat("sync")[0] == 3
    meta.with_name("result.json").unlink()
    assert plat("sweep", path)[0] == 0 and json.loads(meta.read_text())["axes"]["seed"] == 0


def test_a_removed_store_is_noticed_and_filled_again(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    done = results_of(home)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    code, out, _ = plat("sweep", path)
    assert code == 0 and not out.startswith("nothing to do") and "started" not in out
    assert results_of(home) == done and (home / "mlflow.db").exists()
    assert plat("sweep", path)[1].startswith("nothing to do")


def test_the_text_of_changes_goes_into_the_store_only_when_asked(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    for run in home.glob("runs/*"):
        (run / "code.diff").write_text("+ changed\n")
    plat("sync")
    assert not list(home.glob("mlartifacts/**/code.diff"))
    assert plat("sync", "--with-diff")[0] == 0
    assert [file.read_text() for file in home.glob("mlartifacts/**/code.diff")] == ["+ changed\n"] * 2


def test_a_damaged_run_is_named_and_the_exit_code_says_it(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    events = next(home.glob("runs/*/attempts/001/events.jsonl"))
    events.write_bytes(events.read_bytes().replace(b'"step":1', b'"step":2', 1))
    run = events.parents[2].name
    for verb in ("sync", "sweep", "report", "claims"):
        code, _, err = plat(verb, path)
        assert code == 3 and run in err and "events.jsonl line 2 is damaged" in err, (verb, err)


def test_a_damaged_result_and_an_edited_config_are_mended_and_named(plat, spec, home, toy):
    path = spec(GUESSING)
    table = plat("sweep", path)[1]
    first, second = sorted(home.glob("runs/*/result.json"))
    first.write_text("")
    second.unlink()
    config = second.parent / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("games: 5", "games: 6"))
    code, out, err = plat("sweep", path)
    assert code == 0 and table[table.index("A test") :] in out
    assert f"result.json is damaged ({first})" in err and f"it is now {config}.damaged-1" in err
    assert json.loads(first.read_text())["outcome"] == "finished" and config.read_text() == text


@pytest.mark.parametrize("edit", [lambda text: text.replace("games: 5", "games: 6"), lambda text: "[", None])
def test_the_config_of_a_finished_run_is_mended_by_a_sweep(plat, spec, home, toy, edit):
    """`plat why` names the damage and the cure; the cure, a sweep, works and runs nothing."""
    path = spec(GUESSING)
    plat("sweep", path)
    config = sorted(home.glob("runs/*/config.yaml"))[0]
    text, run = config.read_text(), config.parent.name
    if edit is None:
        config.unlink()
    else:
        config.write_text(edit(text))
    damaged = json.loads(plat("why", run, "--json")[1])["damage"]
    assert "config" in damaged
    assert damaged in plat("why", run)[1] and "`plat sweep` of the experiment file" in plat("why", run)[1]
    code, out, err = plat("sweep", path)
    assert code == 0 and "started" not in out and config.read_text() == text
    assert ("config.yaml was damaged or edited" in err) == (edit is not None)
    assert json.loads(plat("why", run, "--json")[1])["damage"] == ""


def test_import_names_the_same_cure_for_an_edited_config(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    config = sorted(home.glob("runs/*/config.yaml"))[0]
    config.write_text(config.read_text().replace("games: 5", "games: 6"))
    for file in home.glob("mlflow.db*"):
        file.unlink()
    code, _, err = plat("sync", path)
    assert code == 3 and "`plat sweep` of the experiment file (or the same `plat run`) writes it again" in err
    assert plat("sweep", path)[0] == 0 and plat("sync", path)[0] == 0


def test_why_says_the_identity_in_words(plat, home):
    """A fingerprint is shown without Python's brackets, its long hashes cut."""
    from plat.cli.why import _fingerprint_words

    facts = {"base": {"sha256": "06f687f8f34c427678a98aa4245b87ac"}, "environment": "1", "data": {}}
    assert _fingerprint_words(facts) == ["base sha256 06f687f8f34c", "environment 1"]


def test_a_changed_report_is_made_again_without_running(plat, spec, home, toy):
    plat("sweep", spec(GUESSING))
    code, out, _ = plat("sweep", spec(GUESSING.replace("A test", "Another title")))
    assert code == 0 and "Another title" in out and "started" not in out


def test_a_mended_store_makes_the_report_anew(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    with closing(sqlite3.connect(home / "mlflow.db")) as store:
        store.execute("UPDATE metrics SET value = 0.5")
        store.commit()
    assert plat("sweep", path)[1].startswith("nothing to do")
    assert "were mended" in plat("doctor", "--mend")[1]
    assert not plat("sweep", path)[1].startswith("nothing to do")


def test_an_edited_builder_of_another_package_makes_the_report_anew(spec, home, toy, toy_paper, tmp_path):
    site = shutil.copytree(toy_paper, tmp_path / "site")
    path = spec(GUESSING)

    def sweep() -> str:
        command = [sys.executable, "-m", "plat", "sweep", str(path)]
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    sweep()
    assert sweep().startswith("nothing to do")
    builder = site / "toy_paper" / "report.py"
    builder.write_text(builder.read_text() + "# edited\n")
    assert not sweep().startswith("nothing to do")
    assert sweep().startswith("nothing to do")
    # another copy of the same version: another environment, another checkout
    site = shutil.copytree(site, tmp_path / "copy")
    assert not sweep().startswith("nothing to do")


def test_a_report_under_overrides_has_a_place_and_a_run_of_its_own(plat, spec, home, toy):
    import sqlite3

    path = spec(GUESSING)
    plat("sweep", path)
    own = {file.name: file.read_bytes() for file in (home / "reports" / "small").iterdir()}
    for command in (["sweep", path, "climb.games=3", "seed=1"], ["report", path, "seed=1", "climb.games=3"]):
        code, out, err = plat(*command)
        assert code == 0, err
        places = {folder.name for folder in (home / "reports").iterdir() if folder.is_dir()}
        assert len(places) == 2
        (other,) = places - {"small"}
        assert other.startswith("small@climb.games-3-seed-1-") and other in out
        page = (home / "reports" / other / "report.html").read_text()
        assert f"plat report {os.path.relpath(path)} {' '.join(command[2:])}" in page and "toy-paper 0.0.1" in page
    assert {file.name: file.read_bytes() for file in (home / "reports" / "small").iterdir()} == own
    assert plat("sweep", path)[1].startswith("nothing to do")
    plat("sweep", path, "seed=1")
    assert plat("sweep", path, "seed=1")[1].startswith("nothing to do")
    shutil.rmtree(home / "reports" / next(name.name for name in (home / "reports").glob("small@seed*")))
    assert not plat("sweep", path, "seed=1")[1].startswith("nothing to do")
    with sqlite3.connect(home / "mlflow.db") as database:
        names = {name for (name,) in database.execute("select value from tags where key = 'plat.file'")}
    database.close()
    assert {"small", other} <= names and len(names) == 3


def test_a_wrong_report_is_refused_before_anything_runs(plat, spec, home, toy):
    code, _, err = plat("sweep", spec(GUESSING + "    nmae: x\n"))
    assert code == 2 and "nmae" in err and "name" in err
    assert not results_of(home)


def test_a_store_that_cannot_be_used_is_refused_before_anything_runs(plat, spec, home, toy, tmp_path):
    (tmp_path / "store.db").write_text("no database")
    code, _, err = plat("sweep", spec(GUESSING), "--store", f"sqlite:///{tmp_path}/store.db")
    assert code == 2 and "store.db" in err
    assert not results_of(home)


def test_the_report_of_a_read_only_home_is_printed_and_nothing_is_written(plat, spec, home, toy, tmp_path, monkeypatch):
    path = spec(GUESSING)
    plat("sweep", path)
    shutil.rmtree(home / "reports")
    may = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK and may(place, mode))
    code, out, _ = plat("report", path)
    assert code == 0 and "A test" in out and "nothing was written: " in out and "--out DIR" in out
    assert not (home / "reports").exists()
    code, out, _ = plat("report", path, "--out", tmp_path / "elsewhere")
    assert code == 0 and (tmp_path / "elsewhere" / "report.html").exists() and "nothing was written" not in out
    assert plat("claims", path)[0] == 0


def test_report_and_claims_need_no_run_directories(plat, spec, home, toy, tmp_path):
    path = spec(GUESSING)
    plat("sweep", path)
    (home / "runs").rename(tmp_path / "moved")
    for out in ("one", "two"):
        assert plat("report", path, "--out", tmp_path / out)[0] == 0
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second and "report.html" in first
    assert plat("claims", path, "--json")[1] == '{\n  "claims": []\n}\n'


def test_status_logs_why_and_sync(plat, spec, home, toy):
    path = spec(GUESSING)
    code, out, _ = plat("status", path)
    assert code == 0 and "2 missing" in out and [file.name for file in home.iterdir()] == ["mlflow.db"]
    plat("sweep", path)
    assert "2 done" in plat("status", path)[1] and "2 done" in plat("status")[1]
    states = json.loads(plat("status", path, "--json")[1])["runs"]
    assert {run["state"] for run in states} == {"done"}
    run_id = states[0]["id"]
    for name in (run_id, run_id[:6], states[0]["name"]):
        code, out, _ = plat("why", name)
        assert code == 0 and run_id in out
    assert "policy" in out and "'wild'" in out and "'climber'" in out  # how it differs from the nearest
    assert plat("logs", run_id)[0] == 0
    assert "0 runs brought up to date, 2 were so already" in plat("sync")[1]


def test_a_failed_run_is_said_and_can_be_tried_again(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))  # a division by zero
    code, _, err = plat("sweep", path)
    assert code == 3 and "2 of 2 runs are not done" in err and "failed:error" in err
    code, out, err = plat("sweep", path)
    assert code == 3 and "started" not in out  # it would fail again
    assert plat("status", path)[0] == 3
    code, out, _ = plat("retry", path, "--where", "policy=wild")
    assert code == 3 and out.count("started") == 1
    code, _, err = plat("retry", path, "--where", "polcy=wild")
    assert code == 2 and "policy" in err
    run_id = json.loads(plat("status", path, "--json")[1])["runs"][0]["id"]
    assert "ZeroDivisionError" in plat("logs", run_id, traceback=True)[1]
    assert "failed:error" in plat("why", run_id)[1]


def test_one_run_without_a_file(plat, home, toy):
    code, out, err = plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5")
    assert code == 0 and "finished at step 1" in out, err
    assert len(results_of(home)) == 1
    shown = json.loads(plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json")[1])
    assert shown["result"]["outcome"] == "finished"


def test_a_first_run_says_what_it_does_before_it_starts(plat, home, monkeypatch, toy):
    """Making the store takes seconds, and so does the start of the workers: neither passes in silence."""
    (home / "mlflow.db").unlink()
    arguments = ["run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json"]
    _, out, err = plat(*arguments)
    lines = [line.split("] ")[-1] for line in err.splitlines()]
    assert lines[:2] == ["making the store, once for this home", "starting workers"] and "started" in lines[2]
    assert json.loads(out)["result"]["outcome"] == "finished"


def test_json_stands_alone_on_stdout(plat, home, toy):
    arguments = ["run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5", "--json"]
    code, out, err = plat(*arguments)
    assert code == 0 and json.loads(out)["result"]["outcome"] == "finished"
    assert "started" in err


def test_retry_takes_an_axis_given_twice_as_either_value(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0").replace("seed: [0]", "seed: [0, 1, 2]"))
    plat("sweep", path)
    code, out, _ = plat("retry", path, "--where", "seed=0", "--where", "seed=2", "--where", "policy=wild")
    assert code == 3 and out.count("started") == 2 and "s1-" not in out


def test_retry_checks_the_report_before_anything_runs(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))
    plat("sweep", path)
    attempts = len(list(home.glob("runs/*/attempts/*")))
    path.write_text(path.read_text() + "    nmae: x\n")
    code, _, err = plat("retry", path)
    assert code == 2 and "nmae" in err and len(list(home.glob("runs/*/attempts/*"))) == attempts


def test_status_shows_its_runs_and_folds_many(plat, spec, home, toy, monkeypatch):
    path = spec(GUESSING)
    plat("sweep", path)
    code, out, _ = plat("status", path)
    lines = out.splitlines()
    assert code == 0 and lines[0] == "small: 2 done of 2" and lines[1].split()[0] == "run"
    assert len(lines) == 4 and all("finished" in line and "2/2" in line for line in lines[2:])
    code, out, _ = plat("status", path, "matrix.seed=range(30)")
    assert "2 done, 58 missing of 60" in out and "not shown: 2 done, 58 missing (--all" in out
    assert "finished" not in out and len(out.splitlines()) == 2
    assert len(plat("status", path, "matrix.seed=range(30)", "--all")[1].splitlines()) == 62


def test_status_calls_a_run_preparing_while_what_it_needs_is_made(plat, spec, home):
    from plat.store.home import Home
    from plat.store.preparations import announced

    path = spec("title: A test\nmatrix:\n  variant: {a: {trainer: 'plat_toy:SPEC', recipe: r}}\n  seed: [0, 1]\n")
    place = Home(home).create()
    with announced(place, "prepare:plat_toy:SPEC:r", "recipe r"):
        code, out, _ = plat("status", path)
        assert code == 0 and "2 preparing of 2" in out and "preparing recipe r, for" in out
        states = [run["state"] for run in json.loads(plat("status", path, "--json")[1])["runs"]]
        assert states == ["preparing", "preparing"]
    assert "2 missing of 2" in plat("status", path)[1]


def test_a_run_whose_folder_vanishes_during_the_sweep_is_not_called_done(plat, spec, home, toy, monkeypatch):
    from plat.cli import importing

    path = spec(GUESSING)
    real, removed = importing.import_all, []

    def remove_one(place, *arguments):
        done = real(place, *arguments)
        if not removed:
            removed.append(sorted(place.runs.iterdir())[0])
            shutil.rmtree(removed[0])
        return done

    monkeypatch.setattr(importing, "import_all", remove_one)
    code, _, err = plat("sweep", path)
    assert code == 3 and "1 of 2 runs are not done" in err and "removed during the sweep" in err
    code, out, _ = plat("sweep", path)
    assert code == 0 and not out.startswith("nothing to do") and out.count("started") == 1


UNPUBLISHED = "title: A test\nbase: {trainer: 'plat_toy:SPEC'}\nmatrix:\n  seed: [0]\n"


@pytest.mark.parametrize("verb", ["plan", "sweep", "status", "retry", "report", "claims", "sync"])
def test_a_trainer_that_is_not_published_needs_permission(plat, spec, home, monkeypatch, verb):
    monkeypatch.delenv("PLAT_ALLOW_IMPORT")
    path = spec(UNPUBLISHED)
    code, _, err = plat(verb, path)
    assert code == 2 and "--allow-import" in err and f"{path}:2:17" in err and not home.exists()


def test_permission_to_import_is_for_one_call(plat, spec, home, monkeypatch):
    monkeypatch.delenv("PLAT_ALLOW_IMPORT")
    path = spec(UNPUBLISHED)
    assert plat("plan", path, "--allow-import")[0] == 0
    assert plat("plan", path)[0] == 2
    monkeypatch.setenv("PLAT_ALLOW_IMPORT", "1")
    assert plat("plan", path)[0] == 0


def test_planning_runs_no_code_of_the_current_folder(tmp_path, spec):
    (tmp_path / "innocent.py").write_text("print('I ran')")
    (tmp_path / "x-1.dist-info").mkdir()
    (tmp_path / "x-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    (tmp_path / "x-1.dist-info" / "entry_points.txt").write_text("[plat.trainers]\ninnocent = innocent:SPEC\n")
    spec("title: A test\nbase: {trainer: innocent}\n")
    command = [sys.executable, "-m", "plat", "plan", "small.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and "unknown trainer 'innocent'" in done.stderr and "I ran" not in done.stdout


def test_ui_listens_on_this_machine_alone(plat, home, empty_store, monkeypatch):
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    monkeypatch.setenv("MLFLOW_HOST", "0.0.0.0")
    commands = []
    monkeypatch.setattr("os.execv", lambda program, command: commands.append(command) or sys.exit(0))
    plat("ui", "--port", "5931")
    assert commands[0][commands[0].index("--host") + 1] == "127.0.0.1"


@pytest.fixture
def peaks(home) -> tuple[Home, str, Path]:
    """A home with a run whose peak was at step 2, and whose newest checkpoint is of step 4."""
    run = Home(home).run("00ff00ff00ff00ff")
    folder = run.attempt(1).checkpoints
    folder.mkdir(parents=True)
    run.meta.write_text('{"name": "a-run", "trainer": "embedded"}')
    for step, peak_step in ((1, 1), (2, 2), (3, 2), (4, 2)):
        notes = checkpoint.Notes(events=step, peak_step=peak_step)
        checkpoint.save_checkpoint(folder, step, State({"a": np.zeros(2)}, {}), step == peak_step, notes)
    return Home(home), run.id, folder


def test_eval_takes_the_checkpoint_at_the_peak(peaks):
    home, run, folder = peaks
    assert evaluate._find(home, run, peak=True)[1] == folder / "step-000002"
    assert evaluate._find(home, run, peak=False)[1] == folder / "step-000004"


@pytest.mark.parametrize(
    ("step", "file", "what"),
    [
        (2, "tensors.safetensors", "at the peak (step 2) is missing or damaged"),
        (2, "meta.json", "at the peak (step 2) is missing or damaged"),
        (4, "meta.json", "says where the peak was, is damaged"),
    ],
)
def test_eval_lets_no_other_checkpoint_pass_for_the_peak(plat, peaks, step, file, what):
    home, run, folder = peaks
    (folder / f"step-{step:06d}" / file).write_bytes(b"x")
    code, out, err = plat("eval", run)
    assert code != 0 and what in err and "--last" in err and not out
    assert evaluate._find(home, run, peak=False)[1] == folder / f"step-{4 if step == 2 else 3:06d}"


def test_eval_needs_no_tensors_of_the_newest_checkpoint_to_find_the_peak(peaks):
    home, run, folder = peaks
    (folder / "step-000004" / "tensors.safetensors").write_bytes(b"x")
    assert evaluate._find(home, run, peak=True)[1] == folder / "step-000002"


def test_eval_of_a_trainer_without_one(plat, home, toy):
    plat("run", "trainer=toy_hill_climber", "climb.iterations=1", "climb.games=5")
    code, _, err = plat("eval", next(iter(results_of(home))))
    assert code == 2 and "no evaluation" in err


def test_ctrl_c_saves_and_the_same_command_goes_on(spec, home, toy):
    path = spec(GUESSING.replace("climb.iterations: 2", "climb.iterations: 100000"))
    command = [sys.executable, "-m", "plat", "sweep", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(home.glob("runs/*/attempts/001/checkpoints/*"))) < 2:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130, out
    assert "Traceback" not in out and "the same command goes on" in out
    outcomes = [json.loads(path.read_text())["outcome"] for path in home.glob("runs/*/attempts/001/outcome.json")]
    assert outcomes and set(outcomes) == {"interrupted"}


# -- doctor -----------------------------------------------------------------------------------------------------------


def test_doctor_looks_at_everything_and_creates_nothing(plat, home):
    code, out, _ = plat("doctor", "--json")
    checks = {check["name"]: check["level"] for check in json.loads(out)["checks"]}
    assert set(checks) == {"python", "packages", "plugins", "torch", "cores", "home", "disk", "store"}
    assert code == 0, out
    assert not home.exists()


def test_doctor_fails_on_a_broken_store(plat, home):
    home.mkdir()
    (home / "mlflow.db").write_text("this is no database")
    code, out, _ = plat("doctor")
    assert code == 2 and "error    store" in out
