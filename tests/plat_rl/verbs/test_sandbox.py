"""`plat sandbox run` and `plat sandbox probe`, and what `plat doctor` says about the sandbox."""

from __future__ import annotations

import json

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox import levels

SOURCE = "import sys\nprint(sys.stdin.read().upper(), end='')\nprint('noted', file=sys.stderr)\n"


@pytest.fixture
def program(tmp_path):
    """A program that prints its input in capitals."""
    path = tmp_path / "program.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(autouse=True)
def a_level():
    try:
        levels.choose()
    except BadEnvironment as error:
        pytest.skip(str(error))


def test_run_prints_what_the_program_wrote(plat, program):
    code, out, err = plat("sandbox", "run", program, "--stdin", "abc\n")
    assert code == 0 and out == "ABC\n"
    assert err.startswith("noted\n") and f"level {levels.choose()}" in err


def test_run_reads_a_file_and_prints_json(plat, program, tmp_path):
    (tmp_path / "input").write_text("é")
    code, out, _ = plat("sandbox", "run", program, "--input", tmp_path / "input", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["status"] == "ok" and facts["stdout"] == "É" and facts["stderr"] == "noted\n"
    assert facts["sandbox"]["level"] == levels.choose()


def test_what_a_program_writes_cannot_steer_the_terminal(plat, program):
    program.write_text("print('\\x1b[2J\\udcff')")
    code, out, _ = plat("sandbox", "run", program)
    assert code == 0 and "\x1b" not in out and "\\x1b[2J" in out


@pytest.mark.parametrize(
    ("source", "status"), [("while True: pass", "cpu"), ("1 / 0", "error"), ("import os\nos.fork()", "error")]
)
def test_run_says_how_a_program_failed(plat, program, source, status):
    program.write_text(source)
    code, out, err = plat("sandbox", "run", program, "--seconds", "0.2", traceback=status == "error")
    assert code == 3 and not out and f"{status}: " in err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["{program}", "--level", "namespace"], "did you mean 'namespaces'?"),
        (["{program}", "--level", "remote"], "no URL is named"),
        (["{program}", "--seconds", "-1"], "cpu_seconds is -1"),
        (["{program}", "--stdin", "a", "--input", "b"], "both say what the program reads"),
        (["{program}.not"], "No such file"),
        (["{program}", "--input", "/dev/zero"], "not a regular file"),
        (["{program}", "--level", "remote", "--url", "ftp://x"], "ftp://x"),
        (["{program}", "--level", "remote", "--url", "http://a..b/"], "http://a..b/"),
        (["{program}", "--url", "http://127.0.0.1:1/"], "the level is the first that this machine has"),
        (["{program}", "--level", "landlock", "--url", "http://127.0.0.1:1/"], "the level is landlock"),
    ],
)
def test_bad_input_is_one_message(plat, program, arguments, what):
    code, out, err = plat("sandbox", "run", *(text.format(program=program) for text in arguments))
    assert code == 2 and not out and what in err and err.startswith("error: ") and "fix: " in err


def test_probe_lists_the_levels(plat):
    code, out, _ = plat("sandbox", "probe", "--json")
    found = {fact["level"]: fact for fact in json.loads(out)["levels"]}
    assert code == 0 and set(found) == {"namespaces", "landlock"}
    assert next(name for name, fact in found.items() if fact["problem"] is None) == levels.choose()


@pytest.mark.parametrize(
    ("url", "said"), [("http://127.0.0.1:9/", "does not answer"), ("http://a..b/", "the grader's address is")]
)
def test_probe_says_what_is_wrong_with_a_grader(plat, monkeypatch, url, said):
    monkeypatch.setattr("plat_envs.sandbox.levels.ATTEMPTS", 1)
    code, out, _ = plat("sandbox", "probe", "--url", url, "--json")
    found = {fact["level"]: fact for fact in json.loads(out)["levels"]}
    assert code == 0 and said in found["remote"]["problem"]


def test_without_a_level_probe_and_doctor_say_what_to_do(plat, monkeypatch):
    monkeypatch.setattr(levels, "problem_of", lambda level, url=None: "not here")
    code, out, err = plat("sandbox", "probe")
    assert code == 2 and "namespaces  not here" in out and "fix: apt-get install bubblewrap" in err
    checks = {check["name"]: check for check in json.loads(plat("doctor", "--json")[1])["checks"]}
    assert checks["sandbox"]["level"] == "warning" and "apt-get install bubblewrap" in checks["sandbox"]["fix"]


def test_doctor_names_the_level(plat):
    checks = {check["name"]: check for check in json.loads(plat("doctor", "--json")[1])["checks"]}
    assert checks["sandbox"]["level"] == "ok" and checks["sandbox"]["says"].startswith(levels.choose())


@pytest.mark.parametrize(
    ("source", "end"),
    [("raise SystemExit(5)", "error, exit code 5:"), ("import ctypes; ctypes.string_at(0)", "killed, SIGSEGV:")],
)
def test_run_says_how_the_program_ended(plat, program, source, end):
    program.write_text(source)
    code, _, err = plat("sandbox", "run", program)
    assert code == 3 and end in err
