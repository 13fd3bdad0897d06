"""`plat sweep` starts nothing more once the first runs of a script fail in a way that the others will repeat."""

from __future__ import annotations

import os

import pytest
from fresh_plat import fresh_plat

from plat.dispatch.driver import FailFast
from plat.dispatch.sweep_ends import RunEnd
from plat.words.outcomes import NO_METRIC

GOOD = "import json, sys\nlr = float(sys.argv[1])\nprint(json.dumps({'step': 1, 'loss': lr}))\n"
BAD = GOOD.replace("print", "assert lr > 1, lr\nprint")
SILENT = "print('hello')\n"
FILE = (
    "title: S\nbase: {trainer: script, script: {command: 'python s.py {lr}'}}\nmatrix: {lr: [.1, .2, .3, .4, .5, .6]}\n"
)


@pytest.fixture
def sweep(tmp_path):
    """Sweep six runs of a script with these options; returns the exit code, standard output and standard error."""
    (tmp_path / "s.yaml").write_text(FILE)

    def run(script: str, *options: str) -> tuple[int, str, str]:
        (tmp_path / "s.py").write_text(script)
        environment = {**os.environ, "COLUMNS": "400"}
        done = fresh_plat("sweep", "s.yaml", "-j", "1", "-v", *options, cwd=tmp_path, env=environment)
        return done.returncode, done.stdout, done.stderr

    return run


def test_three_alike_failures_start_nothing_more_and_a_mended_script_runs_all(sweep):
    code, out, err = sweep(BAD)
    assert code == 3
    assert "nothing more is started: 3 runs failed alike" in out
    assert out.count("] started ") in (3, 4)  # one may have begun while the third was read
    assert "others were not started after these failures; `--keep-going` starts them" in err
    code, out, _ = sweep(GOOD)
    assert code == 0 and out.count("] finished ") == 6


def test_a_run_without_metrics_starts_nothing_more(sweep):
    code, out, _ = sweep(SILENT)
    assert code == 3 and out.count("] started ") in (1, 2)
    assert "logged no metric; its last line: hello" in out


def test_keep_going_starts_all(sweep):
    code, out, err = sweep(BAD, "--keep-going")
    assert code == 3 and out.count("] failed:error ") == 6
    assert "nothing more is started" not in out and "not started" not in err


def test_quiet_prints_errors_only(sweep):
    code, out, err = sweep(BAD, "--quiet")
    assert code == 3 and "are not done" in err and out.strip() == ""
    assert sweep(GOOD, "-q")[:2] == (0, "") and sweep(GOOD, "-q")[:2] == (0, "")


def test_first_tries_some_and_skips_those_that_failed(sweep):
    assert sweep(BAD, "--first", "1")[1].count("] failed:error ") == 1
    mended = BAD.replace("> 1", "!= .1")  # the first still fails
    out = sweep(mended, "--first", "1")[1]
    assert out.count("] started ") == 1 and "failed:error lr0.1" in out
    code, out, _ = sweep(mended, "--first", "2")
    assert code == 0 and "finished    lr0.2" in out and "finished    lr0.3" in out and out.count("] started ") == 2


@pytest.mark.parametrize(
    ("ends", "gives_up"),
    [
        ([("failed:error", "exit code 1: lr 0.1"), ("failed:error", "exit code 1: lr 0.2")], False),
        ([("failed:error", f"exit code 1: lr {lr}") for lr in (1, 2e-5, 0.3)], True),
        ([("failed:error", f"{word} is no number") for word in "abc"], False),
        ([("failed:nan", "loss is NaN")] * 5, False),
        ([("failed:oom", "no memory")] * 5, False),
        ([("failed:service", "no server")] * 3, True),
        ([("failed:error", f"{NO_METRIC}; its last line: x")], True),
        ([("finished", "")] * 5 + [("interrupted", "")] * 5, False),
    ],
)
def test_failures_of_one_kind_count_unless_they_depend_on_the_values(ends, gives_up):
    class Run:
        name = "run"

    failures = FailFast()
    said = [failures.verdict(RunEnd(Run(), "failed", outcome, reason)) for outcome, reason in ends]
    assert bool(said[-1]) is gives_up and not any(said[:-1])
