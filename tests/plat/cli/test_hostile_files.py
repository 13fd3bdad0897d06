"""Files that are no files, texts that are no texts, names that are no names: a message, never a traceback."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import subprocess
import sys
import time

import plat_toy
import pytest
from cli_files import GUESSING, results_of
from yaml_bombs import BOMB, MERGED

from plat.store.disk.durable import CHECKSUM
from plat.store.run_directory.paths import RunPaths

VERBS = ("sync", "report", "sweep", "export", "status", "runs", "plan", "doctor")


@pytest.fixture
def swept(plat, spec, toy, home):
    """A home with two done runs of an experiment file; the file."""
    file = spec(GUESSING, "own.yaml")
    assert plat("sweep", file)[0] == 0
    return file


def runs_of(home):
    return [RunPaths(path.parent) for path in sorted(home.glob("runs/*/*/result.json"))]


def every_verb(plat, file, tmp_path):
    """Exit codes of all verbs that read a run; none may be a mistake of plat."""
    codes = {}
    for verb in VERBS:
        more = ("--out", tmp_path / "bundle") if verb == "export" else ()
        code, out, err = plat(verb, *(() if verb in ("sync", "doctor") else (file,)), *more)
        assert "Traceback" not in out + err and "a mistake in plat" not in err and code != 1, (verb, err)
        codes[verb] = code
    return codes


@pytest.mark.parametrize("name", ["code.txt", "code.diff", "config.yaml", "meta.json", "result.json", "cancel"])
def test_a_folder_in_place_of_a_file_of_a_run(plat, swept, home, tmp_path, name):
    run = runs_of(home)[0]
    (run.root / name).unlink(missing_ok=True)
    (run.root / name).mkdir()
    every_verb(plat, swept, tmp_path)


@pytest.mark.parametrize("name", ["outcome.json", "attempt.json", "events.jsonl", "checkpoints", "log.txt"])
def test_a_folder_or_a_file_in_place_of_a_part_of_an_attempt(plat, swept, home, tmp_path, name):
    part = runs_of(home)[0].attempt(1).root / name
    if part.is_dir():
        part.rename(part.with_name("old"))
        part.write_text("")
    else:
        part.unlink(missing_ok=True)
        part.mkdir()
    every_verb(plat, swept, tmp_path)


def test_a_folder_in_place_of_the_note_of_a_report(plat, swept, home):
    note = home / "reports" / ".own.json"
    note.unlink()
    note.mkdir()
    before = results_of(home)
    code, out, err = plat("sweep", swept)
    assert code == 0 and "policy" in out and err == "" and results_of(home) == before
    assert plat("doctor", "--deep", "--fix")[0] in (0, 2)


@pytest.mark.parametrize("key", ["name", "trainer", "paper", "axes", "experiments", "headline", "fingerprint"])
def test_a_lone_surrogate_in_meta_json(plat, swept, home, tmp_path, key):
    meta = runs_of(home)[0].meta
    facts = json.loads(meta.read_text())
    facts.pop(CHECKSUM)
    bad = "x\ud800"
    facts[key] = {"axes": {"seed": bad}, "fingerprint": {"a": [bad]}, "experiments": [bad]}.get(key, bad)
    meta.write_text(json.dumps(facts))
    every_verb(plat, swept, tmp_path)


def test_a_lone_surrogate_in_what_a_trainer_raises_or_returns(tmp_path, plat, spec, home, monkeypatch):
    """It is kept spelled out, or refused, so that every file of the run can be read and stored."""
    (tmp_path / "own_trainer.py").write_text(
        "from dataclasses import dataclass\n"
        "from plat.trainer.api import Outcome, Trainer\n"
        "@dataclass\n"
        "class Config:\n    trainer: str = ''\n    seed: int = 0\n"
        "class Own(Trainer):\n    name, version, config_type = 'own', '1', Config\n"
        "    def train(self, config, io):\n"
        "        if config.seed:\n            return Outcome('finished', {'a': 'x\\ud800'})\n"
        "        raise ValueError('x\\ud800')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    file = spec("title: t\nbase: {trainer: 'own_trainer:Own'}\nmatrix: {seed: [0, 1]}\n")
    code, out, err = plat("sweep", file)
    assert code == 3 and "a mistake in plat" not in err and "x\\ud800" in out + err
    outcomes = [json.loads(path.read_text()) for path in home.glob("runs/*/*/attempts/001/outcome.json")]
    assert sorted(outcome["outcome"] for outcome in outcomes) == ["failed:error", "failed:error"]
    every_verb(plat, file, tmp_path)


@pytest.mark.parametrize("value", ["1 / 0", "'x'", "float('nan')", "-3"])
@pytest.mark.parametrize(
    ("field", "codes"),
    [
        ("iterations", {"plan": 2, "sweep": 2}),
        ("disk_bytes", {"plan": 2}),
        ("needs", {"plan": 2}),
        ("plan_note", {"plan": 2}),
    ],
)
def test_a_function_of_a_trainer_that_fails_is_named_with_its_line(
    tmp_path, plat, spec, monkeypatch, field, codes, value
):
    module = f"sick_{field}_{len(value)}"
    source = tmp_path / f"{module}.py"
    source.write_text(
        f"import plat_toy\nclass Sick(plat_toy.Toy):\n    def {field}(*arguments):\n        return {value}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.path.dirname(plat_toy.__file__)}")
    file = spec(f"title: t\nbase: {{trainer: '{module}:Sick'}}\nmatrix: {{seed: [0]}}\n")
    for verb, expected in codes.items():
        code, out, err = plat(verb, file)
        said = out + err
        assert code == expected and "a mistake in plat" not in said and f"`{field}` of the trainer 'toy'" in said
        assert f"{source}:{4 if '/' in value else 3}" in "".join(said.split())


@pytest.mark.parametrize("verb", ["sweep", "status", "report", "doctor"])
def test_a_home_whose_path_is_no_text(tmp_path, verb):
    file = tmp_path / "own.yaml"
    file.write_text("title: t\nbase: {scale: smoke}\nmatrix: {seed: [0]}\n")
    command = [sys.executable, "-m", "plat", verb, *([str(file)] if verb != "doctor" else [])]
    home = os.fsencode(tmp_path) + b"/inv\xff"
    done = subprocess.run([*command, "--home", home], capture_output=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and b"not UTF-8" in done.stderr and b"fix: " in done.stderr
    assert b"Traceback" not in done.stderr and not os.path.exists(home)


def test_the_file_of_a_mistake_is_private_new_and_without_passwords(plat, spec, monkeypatch, tmp_path):
    def wrong(*_):
        raise RuntimeError("no way to mongodb://bob:swordfish@host \ud800")

    monkeypatch.setattr("plat.spec.expansion.experiment.load_experiments", wrong)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = set()
    for _ in range(2):
        store = "postgresql://bob:swordfish@host/db"
        code, _, err = plat("sweep", spec("title: t\n", "own.yaml"), "--store", store)
        assert code == 1 and "a mistake in plat itself" in err
    for file in tmp_path.glob("plat-error-*"):
        assert file.stat().st_mode & 0o777 == 0o600
        text = file.read_text()
        assert "swordfish" not in text and "Traceback" in text and "bob:***@host" in text
        names.add(file.name)
    assert len(names) == 2 and str(os.getpid()) not in "".join(names)


def test_what_killed_processes_left_below_runs_is_collected(plat, swept, home):
    shard = runs_of(home)[0].root.parent
    old, new = shard / ".tmp-1-2-abc", home / "runs" / ".tmp-1-3-abc"
    for folder in (old, new):
        folder.mkdir()
        (folder / "config.yaml").write_text("x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    assert plat("gc")[0] == 0
    assert not old.exists() and new.exists(), "one that is an hour old belongs to nobody"


@pytest.mark.parametrize("name", ["home.json", "history.jsonl", "studies.db", "reports/.own.json"])
def test_a_pipe_in_place_of_a_file_of_the_home_is_not_waited_for(plat, swept, home, tmp_path, name):
    (home / name).unlink(missing_ok=True)
    os.mkfifo(home / name)
    codes = every_verb(plat, swept, tmp_path)
    assert codes["sync"] == codes["report"] == (2 if name == "home.json" else 0)


def a_socket(path):
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):  # its whole path may be too long
        made.bind(path.name)


OTHERS = {"a pipe": os.mkfifo, "a folder": os.mkdir, "a socket": a_socket, "a file": lambda path: path.write_text("x")}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("name", ["mlflow.db", "mlartifacts"])
def test_what_lies_in_place_of_the_store_is_named_and_the_cure_works(plat, swept, home, name, kind):
    if (name, kind) in (("mlflow.db", "a file"), ("mlartifacts", "a folder")):
        return
    for path in home.glob(f"{name}*"):
        path.rename(home / f"old-{path.name}")
    OTHERS[kind](home / name)
    what = "the store's file is" if name == "mlflow.db" else "the folder of the store's artifacts is"
    for verb in ("sync", "report", "doctor"):
        code, out, err = plat(verb, *([swept] if verb == "report" else []))
        said = " ".join((out + err).split())
        assert code == 2 and f"{what} {kind}" in said and "move it away, and" in said, (verb, said)
    (home / name).rename(home / "moved")
    assert plat(*(("sync",) if name == "mlflow.db" else ("doctor", "--fix")))[0] == 0
    assert plat("report", swept)[0] == plat("doctor", "--deep")[0] == 0


def test_a_store_without_a_table_is_filled_again_by_the_cure_that_is_named(plat, swept, home):
    with contextlib.closing(sqlite3.connect(home / "mlflow.db")) as store:
        store.execute("drop table metrics")
    for verb in ("sync", "report", "doctor"):
        code, out, err = plat(verb, *([swept] if verb == "report" else []))
        said = " ".join((out + err).split())
        assert code == 2 and "its table metrics is gone" in said and "`plat doctor --fix`" in said, (verb, said)
    assert plat("doctor", "--fix")[0] == plat("report", swept)[0] == 0


@pytest.mark.parametrize("name", ["config.yaml", "meta.json", "result.json", "code.txt", "lock", "lease.json"])
def test_a_pipe_in_place_of_a_file_of_a_run_is_not_waited_for(plat, swept, home, tmp_path, name):
    run = runs_of(home)[0]
    (run.root / name).unlink(missing_ok=True)
    os.mkfifo(run.root / name)
    every_verb(plat, swept, tmp_path)


@pytest.mark.parametrize("name", ["events.jsonl", "outcome.json", "attempt.json", "log.txt"])
def test_a_pipe_in_place_of_a_file_of_an_attempt_is_not_waited_for(plat, swept, home, tmp_path, name):
    path = runs_of(home)[0].attempt(1).root / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    every_verb(plat, swept, tmp_path)


@pytest.mark.parametrize("text", [BOMB, MERGED, "[" * 100_000, "a: &a [*a]", "- " * 50_000])
def test_a_config_that_stands_for_too_much_is_damaged(plat, swept, home, tmp_path, text):
    """The C parser of YAML ends the process on some of these."""
    runs_of(home)[0].config.write_text(text)
    every_verb(plat, swept, tmp_path)
