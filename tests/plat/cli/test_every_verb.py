"""Every verb in a pipe, at 80 and at 200 columns: no traceback, no escape sequence, no name of a run is cut, and no
line is wider than it need be. On a terminal, NO_COLOR is respected."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios

import jsonschema
import pytest

from plat.cli.verb_list import VERBS, plugin_verbs
from plat.runner.execution import execute
from plat.spec.expansion.experiment import load_experiment
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
from plat.store.run_directory.creation import create

TEXT = """
title: A title of some length, so that it has to be wrapped somewhere on a narrow terminal
base: {trainer: 'plat_toy:Toy', train.iterations: 4}
matrix:
  train.checkpoint_every: [2, 100000001]
  mischief: [none, error]
  scale: [a-scale-with-a-very-long-name-indeed, another-scale-with-a-long-name-indeed]
  seed: [0]
"""
SEARCH = """
title: A search
base: {trainer: 'plat_toy:Toy', train.iterations: 4}
space: {at: {int: [10, 50]}}
objectives: [{maximize: success}]
trials: 1
"""
# verb -> the arguments to try, and whether it lists the runs by their names
COMMANDS = {
    "init": (["{home}/nothing.py"], False),
    "plan": (["{file}", "-v"], True),
    "sweep": (["{file}", "--dry-run"], False),
    "judge": (["true", "--metric", "loss", "--against", "nothing"], False),
    "tune": (["{search}"], False),
    "run": (["trainer=plat_toy:Toy", "seed=77"], False),
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
    "export": (["{file}", "--out", "{home}/bundle-{width}"], False),
    "import": (["{home}/nothing"], False),
    "options": ([], False),
    "ui": (["--help"], False),
    "doctor": ([], False),
    "wait": (["{file}", "--timeout", "1s"], False),
    "mcp": (["{home}/nothing"], False),
    "skill": ([], False),
    "schema": (["runs"], False),
    "completion": (["bash"], False),
    "base": (["list"], False),
    "sandbox": (["probe"], False),
    "trajectory": (["{done}"], False),
    "retrieval": (["pages", "--out", "{home}/pages-{width}.jsonl", "--count", "10"], False),
}
GROUPS = ("base", "sandbox", "retrieval")
# They print what others wrote, progress line by line, a report's tables, which shorten their own cells, or a script.
QUOTES = ("logs", "sweep", "tune", "run", "retry", "report", "completion", "schema", "skill")


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
    missing = VERBS.keys() ^ COMMANDS.keys() ^ plugin_verbs().keys()
    assert not missing, f"COMMANDS of this file: add or remove {sorted(missing)}"


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
    assert code in (0, 2, 3, *([12] if verb == "wait" else [])), err
    assert "\x1b" not in out + err and "mistake in plat" not in err and (out or err)
    if code == 2:
        assert err.startswith("error: ") and len(err.splitlines()) <= 3
    if lists_runs:
        assert [name for name in names if name not in out] == []
    if verb not in QUOTES:
        assert [line for line in out.splitlines() if could_be_narrower(line, width)] == []


@pytest.mark.parametrize("verb", [verb for verb in COMMANDS if verb != "mcp"])  # it speaks another protocol
def test_json_of_a_verb_is_as_its_schema_says(plat, made, monkeypatch, verb):
    home, path, _ = made
    monkeypatch.setenv("PLAT_HOME", str(home.root))
    states = {run["state"]: run["id"] for run in json.loads(plat("status", path, "--json")[1])["runs"]}
    facts = {"file": path, "search": path.with_name("a_search.yaml"), "home": home.root, "width": "json", **states}
    arguments = [text.format(**facts) for text in COMMANDS[verb][0]]
    words = [verb, *arguments[:1]] if verb in GROUPS else [verb]
    schema = json.loads(plat("schema", *words)[1])
    jsonschema.Draft202012Validator.check_schema(schema)
    if verb == "ui":
        arguments = ["--port", "0"]
    code, out, _ = plat(verb, *arguments, "--json", traceback=verb == "logs")
    lines = out.splitlines() if schema["title"].startswith("a line of") else [out]
    for line in lines:
        jsonschema.validate(json.loads(line), schema)
    last = json.loads(lines[-1])
    assert ("error" in last) == (code == 2 or verb == "judge"), last
    if "error" in last:
        assert last["exit_code"] == code and last["error"]["what"]


def could_be_narrower(line: str, width: int) -> bool:
    """Whether a line is too wide and could be broken: a name or a path that is too long itself cannot."""
    longest = max(map(len, line.split()), default=0)
    return len(line) > width and len(line) - len(line.lstrip()) + longest <= width


@pytest.mark.parametrize("verb", ["report", "status", "runs", "--help"])
def test_no_colour_on_a_terminal_that_wants_none(made, verb):
    home, path, _ = made
    arguments = [] if verb == "--help" else [str(path)]
    environment = {**os.environ, "PLAT_HOME": str(home.root), "TERM": "xterm-256color", "NO_COLOR": "1"}
    environment.pop("COLUMNS", None)
    shown = on_terminal([sys.executable, "-m", "plat", verb, *arguments], environment)
    assert shown.strip() and "\x1b" not in shown and "Traceback" not in shown


def on_terminal(command: list[str], environment: dict[str, str]) -> str:
    """What a command prints on a terminal of 80 columns."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, env=environment)
    os.close(child)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while data := os.read(parent, 1 << 16):
            shown += data
    process.wait(60)
    os.close(parent)
    return shown.decode()
