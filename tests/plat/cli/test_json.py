"""What programs read: JSON lines, errors as objects, a reader that closes the pipe, curves of runs, waiting."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import jsonschema
import pytest
from cli_files import GUESSING

from plat import errors
from plat.cli.result import plain

FAILING = """
title: A test
base:
  trainer: script
  script.metrics: text
  script.command: "python -c 'print(dict(loss=2)); raise SystemExit({code})'"
matrix: {code: [0, 3], seed: [0]}
"""


def test_a_sweep_prints_lines_and_at_last_how_every_run_ended(plat, spec, toy, tmp_path):
    path = spec(GUESSING)
    code, out, _ = plat("sweep", path, "--json")
    lines = list(map(json.loads, out.splitlines()))
    schema = json.loads(plat("schema", "sweep")[1])
    for line in lines:
        jsonschema.validate(line, schema)
    ended = [line for line in lines if line["event"] == "run" and line["state"] == "ended"]
    last = lines[-1]
    assert code == 0 and last["event"] == "result" and last["counts"] == {"done": 2}
    assert sorted(run["id"] for run in last["runs"]) == sorted(run["id"] for run in ended)
    assert last["reports"][0]["page"].endswith("report.html") and last["reports"][0]["is_whole"]
    again = list(map(json.loads, plat("sweep", path, "--json")[1].splitlines()))
    assert [line["event"] for line in again] == ["result"] and again[0]["counts"] == {"done": 2}
    planned = json.loads(plat("sweep", path, "--json", "--dry-run")[1])
    assert planned["event"] == "result" and planned["plan"]["counts"]["done"] == 2
    jsonschema.validate(planned, schema)


def test_a_failed_run_is_in_the_result_and_in_the_exit_code(plat, spec, toy):
    code, out, _ = plat("sweep", spec(FAILING), "--json", "--keep-going")
    last = json.loads(out.splitlines()[-1])
    assert code == 3 and last["counts"] == {"done": 1, "failed": 1}
    assert {run["outcome"] for run in last["runs"]} == {"finished", "failed:error"}


def test_curves_and_last_values(plat, spec, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    (first, *_) = json.loads(plat("runs", path, "--json", "--metrics", "val/games_won")[1])["runs"]
    curve = first["metrics"]["val/games_won"]
    assert [step for step, _ in curve] == sorted(step for step, _ in curve)
    (last, *_) = json.loads(plat("runs", path, "--json", "--metrics", "val/games_won", "--last")[1])["runs"]
    assert last["metrics"] == {"val/games_won": curve[-1][1]}
    code, out, _ = plat("runs", path, "--json", "--metrics", "val/game_won")
    assert code == 2 and "val/games_won" in json.loads(out)["error"]["fix"]
    assert plat("runs", path, "--metrics", "val/games_won")[0] == plat("runs", path, "--last")[0] == 2


def test_errors_have_codes_that_differ_by_kind(plat, spec):
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.PlatError)]
    assert len({kind.code for kind in kinds}) == len(kinds)
    wrong = spec("title: A test\nbase: {scale: smoke}\nmatrx: {seed: [0]}\n")
    error = json.loads(plat("plan", wrong, "--json")[1])
    jsonschema.validate(error, json.loads(plat("schema", "plan")[1]))
    assert error["exit_code"] == 2 and error["error"]["where"].endswith("small.yaml:3:1")
    assert json.loads(plat("plan", "--jsn", "--json")[1])["error"]["code"] == "command-line"


def test_a_closed_pipe_is_no_error():
    command = [sys.executable, "-m", "plat", "options", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait(60) == 141


def test_a_full_disk_is_said_on_stderr():
    command = [sys.executable, "-m", "plat", "plan", "none.yaml", "--json"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "no such file" in done.stderr


def test_values_that_json_lacks():
    assert plain({1: (float("nan"), [float("-inf"), 2.0]), "a": None}) == {"1": [None, [None, 2.0]], "a": None}


@pytest.mark.parametrize(
    ("until", "more", "code", "reached"),
    [("done", [], 0, True), ("failed", [], 3, False), ("decided", [], 2, None)],
)
def test_waiting_for_runs_that_have_ended(plat, spec, toy, until, more, code, reached):
    path = spec(GUESSING)
    plat("sweep", path)
    found, out, _ = plat("wait", path, "--until", until, *more, "--json")
    assert found == code and json.loads(out).get("reached") == reached
    assert plat("wait", path, "--until", "dne")[0] == plat("wait", path, "--timeout", "soon")[0] == 2


def test_waiting_ends_when_a_sweep_ends_or_has_failed(plat, spec, toy, home):
    path, failing = spec(GUESSING), spec(FAILING, "failing.yaml")
    for file, code in ((path, 0), (failing, 3)):
        command = [sys.executable, "-m", "plat", "sweep", str(file), "--keep-going"]
        sweep = subprocess.Popen(command, env={**os.environ, "PLAT_HOME": str(home)}, stdout=subprocess.DEVNULL)
        started = time.monotonic()
        found, out, _ = plat("wait", file, "--timeout", "60s", "--every", "0.2", "--json")
        assert (found, json.loads(out)["reached"]) == (code, code == 0), out
        assert time.monotonic() - started > 0.5  # it has waited for the sweep to begin
        assert sweep.wait(60) == code
