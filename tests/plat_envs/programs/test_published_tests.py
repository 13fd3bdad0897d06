"""The tests of a row of DeepCoder-Preview: every shape, and one sentence for each bad row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.published import problem_of_row
from plat_envs.sandbox.program import Call, Test

# Rows of our own in the shapes of the parts of the dataset.
ROWS = json.loads(Path(__file__).with_name("published_rows.json").read_text(encoding="utf-8"))
LIVE_STDIN = ROWS["live_stdin"]


@pytest.mark.parametrize("name", ROWS)
def test_every_shape_of_tests(name):
    problem = problem_of_row(ROWS[name], "key", "all", "here")
    kind = Call if problem.function else Test
    assert all(isinstance(test, kind) for test in problem.hidden) and len(problem.hidden) > 1
    assert problem.function == ("add" if "function" in name else None) and "```" not in problem.reference
    second = problem.hidden[1]
    if name == "taco_function":
        assert (second.arguments, second.expected) == (["a", "b"], "ab")
    elif problem.function:
        assert (second.arguments, second.expected) == ([1, 1], 2)
    else:
        given = "2" if name == "taco_stdin" else "1"
        assert (second.stdin.strip(), second.expected.strip()) == (given, str(2 * int(given)))


def test_the_longest_15():
    lengths = [5, 1, 9, *range(20, 40)]
    tests = [{"input": "1" * length, "output": "x", "testtype": "stdin"} for length in lengths]
    problem = problem_of_row(LIVE_STDIN | {"tests": tests}, "key", "longest_15", "here")
    assert [len(test.stdin) for test in problem.hidden] == list(range(25, 40))


def test_a_tolerance_only_where_the_problem_says_so():
    near = {"problem": "An absolute or relative error of 1e-6 is allowed."}
    assert problem_of_row(LIVE_STDIN | near, "", "all", "").hidden[0].tolerance == 1e-6
    assert problem_of_row(LIVE_STDIN, "", "all", "").hidden[0].tolerance is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tests": "[]"}, "has no tests"),
        ({"tests": ""}, "has no tests"),
        ({"tests": None}, "has no tests"),
        ({"tests": '{"inputs": [], "outputs": []}'}, "has no tests"),
        ({"tests": "[{"}, "cannot be read"),
        ({"tests": '{"inputs": ["1"], "outputs": []}'}, "cannot be read"),
        ({"tests": '[{"input": "1"}]'}, "cannot be read"),
        ({"tests": r'[{"input": "\ud800", "output": "1", "testtype": "stdin"}]'}, "surrogates not allowed"),
        ({"tests": r'[{"input": "1", "output": "\ud800", "testtype": "stdin"}]'}, "surrogates not allowed"),
        ({"tests": '{"fn_name": "f", "inputs": [[NaN]], "outputs": [[1]]}'}, "cannot be read: ValueError"),
        ({"tests": '{"fn_name": "f", "inputs": [[1]], "outputs": [[1e999]]}'}, "cannot be read: ValueError"),
        ({"tests": f'{{"fn_name": "f", "inputs": [[1]], "outputs": [{"9" * 4100}]}}'}, "too many digits"),
        ({"tests": "[3]"}, "cannot be read"),
        ({"tests": '[{"input": "1", "output": "1", "testtype": "functional"}]', "metadata": {}}, "no name"),
        (
            {"tests": LIVE_STDIN["tests"][:-1] + ',{"input":"1","output":"1","testtype":"functional"}]'},
            "and some do not",
        ),
    ],
)
def test_a_bad_row_is_named(change, said):
    with pytest.raises(BadEnvironment, match=said) as raised:
        problem_of_row(LIVE_STDIN | change, "key", "all", "file: row 0")
    assert "file: row 0" in str(raised.value) and "\n" not in str(raised.value)
