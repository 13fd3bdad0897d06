"""Every verb in a pipe, at 80 and at 200 columns: no traceback, no escape sequence, and no name of a run is cut."""

from __future__ import annotations

import json
import shutil

import pytest

from plat.cli.verbs import GROUPS, VERBS
from plat.runner.execution import execute
from plat.spec.experiment import load_experiment
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
from plat.store.run_directory.creation import create

TEXT = """
title: A title of some length, so that it has to be wrapped somewhere on a narrow terminal
base: {trainer: 'plat_toy:SPEC', train.iterations: 4}
matrix:
  train.checkpoint_every: [2, 100000001]
  mischief: [none, error]
  scale: [a-scale-with-a-long-name, another-scale-with-a-long-name]
  seed: [0]
"""
SEARCH = """
title: A search
base: {trainer: 'plat_toy:SPEC', train.iterations: 4}
space: {at: {int: [10, 50]}}
objectives: [{maximize: success}]
trials: 1
"""
# verb -> the arguments to try, and whether it lists the runs by their names
COMMANDS = {
    "plan": (["{file}", "-v"], True),
    "sweep": (["{file}", "--dry-run"], False),
    "tune": (["{search}"], False),
    "run": (["trainer=plat_toy:SPEC", "seed=77"], False),
    "eval": (["{done}"], False),
    "status": (["{file}"], True),
    "watch": (["{file}"], False),
    "runs": (["{file}"], True),
    "diff": (["{done}", "{failed}"], False),
    "logs": (["{failed}"], False),
    "why": (["{failed}"], False),
    "cancel": (["{file}"], False),
    "retry": (["{file}", "--where", "seed=0", "--where", "state=missing"], False),
    "sync": (["{file}"], False),
    "report": (["{file}"], False),
    "claims": (["{file}"], False),
    "rm": (["{file}"], False),
    "gc": (["--dry-run"], False),
    "archive": (["{file}"], False),
    "export": (["{file}", "--out", "{home}/bundle-{width}"], False),
    "import": (["{home}/nothing"], False),
    "options": ([], False),
    "ui": (["--help"], False),
    "doctor": ([], False),
    "base": (["list"], False),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, empty_store):
    """A home with done, failed and missing runs that have long names: (home, file, names)."""
    folder = tmp_path_factory.mktemp("verbs")
    path = folder / "a_file_with_a_long_name.yaml"
    path.write_text(TEXT)
    (folder / "a_search.yaml").write_text(SEARCH)
    home = Home(folder / "home").create()
    shutil.copy(empty_store, home.database)
    experiment = load_experiment(path)
    for run in experiment.runs[:-2]:
        execute(home, create(home, run, experiment.name).id)
    import_runs(home, home.store_uri(), [experiment])
    return home, path, [run.name for run in experiment.runs]


def test_every_verb_is_tried():
    assert COMMANDS.keys() == VERBS.keys() | GROUPS.keys()


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("verb", COMMANDS)
def test_a_verb_in_a_pipe(plat, made, monkeypatch, verb, width):
    home, path, names = made
    assert all(len(name) > 60 for name in names)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("PLAT_HOME", str(home.root))
    states = {run["state"]: run["id"] for run in json.loads(plat("status", path, "--json")[1])["runs"]}
    arguments, lists_runs = COMMANDS[verb]
    facts = {"file": path, "search": path.with_name("a_search.yaml"), "home": home.root, "width": width, **states}
    code, out, err = plat(verb, *(text.format(**facts) for text in arguments), traceback=verb == "logs")
    assert code in (0, 2, 3), err
    assert "\x1b" not in out + err and "mistake in plat" not in err and (out or err)
    if code == 2:
        assert err.startswith("error: ") and len(err.splitlines()) <= 3
    if lists_runs:
        assert [name for name in names if name not in out] == []
    if verb == "runs":
        assert max(map(len, out.splitlines())) <= width
