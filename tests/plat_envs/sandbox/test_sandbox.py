"""The door: grades, limits, hanging programs, broken boxes, and levels that cannot be had."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox import box, commands, levels
from plat_envs.sandbox.box import Box
from plat_envs.sandbox.levels import HOSTILE, hostile_successes
from plat_envs.sandbox.program import Call, Limits, Outcome, Program, Test
from plat_envs.sandbox.sandbox import Sandbox

DOUBLE = Program("print(2 * int(input()))")
TIGHT = Limits(cpu_seconds=0.3, memory_bytes=256 << 20, output_bytes=1000)


def test_a_grade_has_a_verdict_for_each_test(level):
    grade = Sandbox(level).grade(DOUBLE, [Test("1", "2"), Test("2", "5"), Test("x", "0"), Test("4", "8")])
    assert grade.passed == [True, False, False, True] and grade.share == 0.5
    assert [outcome.status for outcome in grade.outcomes] == ["ok", "ok", "error", "ok"]
    assert grade.outcomes[2].stderr.endswith("ValueError: invalid literal for int() with base 10: 'x'\n")
    assert "launcher" not in grade.outcomes[2].stderr


@pytest.mark.parametrize(
    ("program", "first", "last"),
    [
        (Program("print(1)\n\0"), "SyntaxError: ", "null bytes\n"),
        (Program("x = ("), '  File "program.py", line 1\n', "SyntaxError: '(' was never closed\n"),
        (Program("", "double"), "AttributeError: ", "has no attribute 'double'\n"),
        (Program("def double(n): return {n}", "double"), "TypeError: ", "is not JSON serializable\n"),
    ],
)
def test_an_error_before_or_after_the_program_shows_no_frame_of_the_launcher(level, program, first, last):
    outcome = Sandbox(level).run(program, ["[1]"])[0]
    assert outcome.status == "error" and outcome.exit_code == 1
    assert outcome.stderr.startswith(first) and outcome.stderr.endswith(last)


def test_many_programs_at_once_keep_their_order(level):
    jobs = [(Program(f"print(int(input()) + {n})"), [Test("1", str(n + 1)), Test("2", str(n + 3))]) for n in range(20)]
    assert [grade.passed for grade in Sandbox(level, workers=3).grade_all(jobs)] == [[True, False]] * 20


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ("while True: pass", "cpu"),
        ("data = bytearray(1 << 30)", "memory"),
        ("print('x' * 2000)", "output"),
        ("import os; os.kill(os.getpid(), 9)", "killed"),
        ("raise ValueError", "error"),
        ("import sys; sys.exit(3)", "error"),
        ("import sys; sys.exit('sorry')", "error"),
        ("(", "error"),
        ("print('\\0')", "ok"),
        ("", "ok"),
    ],
)
def test_how_a_program_ends(level, source, status):
    outcome = Sandbox(level, TIGHT).run(Program(source), [""])[0]
    assert outcome.status == status, outcome
    assert status == "output" or (status == "ok") == (outcome.exit_code == 0)


def test_a_program_that_waits_runs_out_of_time(level):
    outcomes = Sandbox(level, replace(TIGHT, wall_seconds=0.3)).run(Program("import time; time.sleep(60)"), ["", ""])
    assert [outcome.status for outcome in outcomes] == ["wall", "wall"]


def test_an_exit_code_fails_a_right_answer(level):
    grade = Sandbox(level).grade(Program("print(1)\nraise SystemExit(1)"), [Test("", "1")])
    assert grade.passed == [False] and grade.outcomes[0].stdout == b"1\n"


def test_inputs_and_outputs_larger_than_a_pipe(level):
    text = "x" * 1_000_000
    grade = Sandbox(level).grade(Program("print(input())"), [Test(text, text), Test(text, text + "y")])
    assert grade.passed == [True, False]
    assert Sandbox(level).grade(Program("print(1)"), [Test(text, "1")]).passed == [True]  # which it does not read


def test_a_program_without_tests_is_an_error(level):
    with pytest.raises(BadEnvironment, match="program 1 has no tests"):
        Sandbox(level).grade_all([(DOUBLE, [Test("1", "2")]), (DOUBLE, [])])


@pytest.mark.parametrize(("program", "test"), [(DOUBLE, Call([1], 2)), (Program("f = abs", "f"), Test("1", "1"))])
def test_tests_of_the_other_kind_are_an_error(level, program, test):
    with pytest.raises(BadEnvironment, match="of the other kind"):
        Sandbox(level).grade(program, [test])


@pytest.mark.parametrize(
    ("program", "good", "bad", "said"),
    [
        (Program("f = abs", "f"), Call([1], 1), Call([float("nan")], 1), "arguments are no JSON"),
        (DOUBLE, Test("1", "2"), Test("\ud800", "2"), "stdin is no text: .* surrogates not allowed"),
    ],
)
def test_a_test_that_cannot_be_given_to_a_program_is_named(program, good, bad, said):
    with pytest.raises(BadEnvironment, match=rf"{said}.* \| program 1, test 2 \| mend"):
        Sandbox("limits_only").grade_all([(program, [good]), (program, [good, good, bad])])


def test_so_is_an_input():
    with pytest.raises(BadEnvironment, match=r"stdin is no text.* \| input 1 \|"):
        Sandbox("limits_only").run(DOUBLE, ["1", "\ud800"])


@pytest.mark.parametrize(
    "limits", [{"cpu_seconds": 0}, {"memory_bytes": 1}, {"files": 1}, {"cpu_seconds": float("nan")}]
)
def test_limits_out_of_range_are_an_error(limits):
    with pytest.raises(BadEnvironment, match=next(iter(limits))):
        Limits(**limits)


class Script:
    """A box that answers with prepared statuses and counts what it was asked."""

    def __init__(self, *statuses: str) -> None:
        self.statuses, self.asked, self.opened = list(statuses), 0, 0

    @contextlib.contextmanager
    def open(self, *_: object) -> Iterator[Script]:
        self.opened += 1
        yield self

    def run_each(self, program: Program, stdins: list[bytes]) -> Iterator[Outcome]:
        for stdin in stdins:
            self.asked += 1
            yield Outcome(self.statuses.pop(0), stdin)  # type: ignore[arg-type]


def test_what_hung_under_load_is_repeated_alone(monkeypatch):
    script = Script("ok", "wall", "ok", "ok")
    monkeypatch.setattr(levels, "open_box", script.open)
    grade = Sandbox("limits_only").grade(DOUBLE, [Test(text, text) for text in "abc"])
    assert grade.passed == [True, True, True] and (script.asked, script.opened) == (4, 2)


def test_what_hangs_alone_as_well_costs_no_further_test(monkeypatch):
    script = Script("wall", "wall")
    monkeypatch.setattr(levels, "open_box", script.open)
    grade = Sandbox("limits_only").grade(DOUBLE, [Test(text, text) for text in "abcdef"])
    assert [outcome.status for outcome in grade.outcomes] == ["wall"] * 6 and script.asked == 2


def test_a_launcher_that_died_is_replaced(level):
    with Box(level, TIGHT) as opened:
        assert [outcome.status for outcome in opened.run_each(DOUBLE, [b"1"])] == ["ok"]
        opened._process.kill()
        opened._process.wait()
        statuses = [(outcome.status, outcome.stdout) for outcome in opened.run_each(DOUBLE, [b"1", b"2"])]
    assert statuses == [("killed", b""), ("ok", b"4\n")]


def test_a_box_that_does_not_start_says_why(monkeypatch):
    command = [sys.executable, "-c", "raise OSError('no room')"]
    monkeypatch.setitem(box.COMMANDS, "namespaces", lambda: command)
    with pytest.raises(BadEnvironment, match=r"namespaces does not start: OSError: no room"):
        Box("namespaces", TIGHT)


def test_the_probe_finds_what_limits_alone_allow():
    succeeded = hostile_successes(lambda limits: Box("limits_only", limits))
    assert {"read a file of this machine", "reached the network", "started a process"} <= set(succeeded) <= set(HOSTILE)
    assert "took more memory than it may" not in succeeded


def test_a_level_that_lets_a_hostile_program_through_is_refused(monkeypatch):
    monkeypatch.setattr(levels, "problem_of", levels.problem_of.__wrapped__)
    monkeypatch.setitem(box.COMMANDS, "namespaces", commands.direct)
    monkeypatch.setattr("plat_envs.sandbox.inside.confinement.restrict_files", lambda *_: None)
    monkeypatch.setattr(levels, "open_box", lambda level, limits, url=None: Box("limits_only", limits))
    with pytest.raises(BadEnvironment, match="a hostile program read a file of this machine and"):
        levels.choose("namespaces")


def test_without_any_level_one_message_names_what_to_do(monkeypatch):
    monkeypatch.setattr(levels, "problem_of", levels.problem_of.__wrapped__)
    monkeypatch.setattr(commands.shutil, "which", lambda name: None)
    monkeypatch.setitem(box.COMMANDS, "landlock", lambda: [sys.executable, "-c", "raise OSError('too old')"])
    with pytest.raises(BadEnvironment) as caught:
        levels.choose()
    assert "namespaces: bubblewrap is not installed" in caught.value.what and "landlock: " in caught.value.what
    assert "remote: no URL is named" in caught.value.what
    assert "apt-get install bubblewrap" in str(caught.value.fix) and "--level remote" in str(caught.value.fix)


def test_another_machine_is_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(BadEnvironment, match="this is linux on aarch64"):
        commands.check_machine()


def test_limits_alone_have_to_be_named_and_are_refused_for_language_models():
    assert Sandbox("limits_only").grade(DOUBLE, [Test("1", "2")]).passed == [True]
    with pytest.raises(BadEnvironment, match="refused for programs of a language model"):
        Sandbox("limits_only", for_language_model=True)
    assert levels.LIMITS_ONLY not in levels.ORDER


def test_an_unknown_level_is_an_error():
    with pytest.raises(BadEnvironment, match="'namespace'"):
        Sandbox("namespace")


def test_what_a_run_records(level):
    facts = Sandbox(level, for_language_model=True).provenance()
    means = {"namespaces": "bubblewrap", "landlock": "landlock"}[level]
    assert facts["level"] == level and facts["python"] == platform.python_version() and facts[means]


def test_ctrl_c_ends_a_program_that_sleeps(tmp_path):
    """Long before its wall-clock limit of four minutes, and nothing of it is left."""
    program = tmp_path / "sleeps_in_a_box.py"
    program.write_text("import time\ntime.sleep(1000)\n")
    command = [sys.executable, "-m", "plat", "sandbox", "run", str(program), "--level", "landlock", "--seconds", "60"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    sleeping = ["ps", "-o", "pid=", "--ppid"]
    until = time.monotonic() + 60
    while time.monotonic() < until:
        launchers = subprocess.run([*sleeping, str(process.pid)], capture_output=True, text=True).stdout.split()
        if launchers and subprocess.run([*sleeping, launchers[0]], capture_output=True, text=True).stdout.split():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert "interrupted" in process.communicate(timeout=60)[1] and process.returncode == 130
    assert not [pid for pid in launchers if os.path.exists(f"/proc/{pid}")]


def test_programs_that_sleep_and_honest_ones_are_graded_together():
    sleeper, honest = Program("import time; time.sleep(1000)"), Program("print(input())")
    tests = [Test("a", "a\n"), Test("b", "b\n")]
    sandbox = Sandbox(limits=Limits(cpu_seconds=1, wall_seconds=0.5), workers=2)
    grades = sandbox.grade_all([(sleeper, tests), (honest, tests), (sleeper, tests), (sleeper, tests), (honest, tests)])
    assert [grade.passed for grade in grades] == [[False] * 2, [True] * 2, [False] * 2, [False] * 2, [True] * 2]
    assert {outcome.status for grade in grades[::2][:1] for outcome in grade.outcomes} == {"wall"}
