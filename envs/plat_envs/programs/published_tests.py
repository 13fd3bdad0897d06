"""The tests of a row of DeepCoder-Preview, which come in three shapes.

LiveCodeBench    [{"input": "1\\n2", "output": "3", "testtype": "functional"}, ...]: one JSON value a line; or "stdin"
PrimeIntellect   [{"type": "function_call", "fn_name": "f", "input": [1, 2], "output": [3]}, ...]; or "stdin_stdout"
TACO             {"fn_name": "f", "inputs": [[1, 2], ...], "outputs": [[3], ...]}; without a function, texts
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.problem import AnyTest
from plat_envs.sandbox.compare import parse
from plat_envs.sandbox.program import Call, Test

LONGEST = 15  # tests of `tests: longest_15`
TOLERANCE = 1e-6  # for problems that say that an answer may be off
_MAY_BE_OFF = re.compile(r"(absolute|relative)( or (absolute|relative))?\s+(error|precision)", re.IGNORECASE)
_FUNCTIONAL = ("functional", "function_call")
FIX = "mend or remove the row"


def function_and_tests(row: dict[str, Any], which: str, where: str) -> tuple[str | None, list[AnyTest]]:
    """Return the function that a row asks for (None: a program that reads stdin), and its tests.

    Raises BadEnvironment, with `where`, if it has no tests, or they cannot be read or given to a program.
    """
    try:
        function, pairs = _pairs(row)
        tolerance = TOLERANCE if _MAY_BE_OFF.search(str(row.get("problem"))) else None
        if function is None:
            tests: list[AnyTest] = [Test(_text(given), _text(wanted), tolerance) for given, wanted in pairs]
        else:
            tests = _calls(pairs, tolerance, isinstance(_value(row["tests"]), list))
        for test in tests:
            _check(test)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        what = f"the tests of a row cannot be read: {type(error).__name__}: {error}"
        raise BadEnvironment(what, where=where, fix=FIX) from None
    if not tests:
        raise BadEnvironment("a row has no tests", where=where, fix=FIX)
    return function, _longest(tests) if which == "longest_15" else tests


def _check(test: AnyTest) -> None:
    """Raise ValueError or RecursionError unless texts are UTF-8 and values are JSON, without NaN and infinity."""
    if isinstance(test, Test):
        (test.stdin + test.expected).encode()
    else:
        json.dumps(test.arguments, allow_nan=False)
        parse(json.dumps(test.expected, allow_nan=False).encode())  # as the comparison does


def _pairs(row: dict[str, Any]) -> tuple[str | None, list[tuple[Any, Any]]]:
    """Return the function and the pairs of input and output, as they are in the row."""
    tests = _value(row.get("tests")) or []
    if isinstance(tests, dict):
        inputs, outputs = tests["inputs"], tests["outputs"]
        return tests.get("fn_name"), list(zip(inputs, outputs, strict=True))
    kinds = {(test.get("testtype") or test.get("type")) in _FUNCTIONAL for test in tests}
    if len(kinds) > 1:
        raise ValueError("some tests call a function and some do not")
    function = None
    if kinds == {True}:
        of_row, of_test = _value(row.get("metadata")) or {}, _value(tests[0].get("metadata")) or {}
        function = tests[0].get("fn_name") or of_test.get("func_name") or of_row.get("func_name")
        if not isinstance(function, str):
            raise ValueError("no name of the function")
    return function, [(test["input"], test["output"]) for test in tests]


def _value(value: Any) -> Any:
    """Return a value that may be written as JSON."""
    return json.loads(value) if isinstance(value, str) and value.strip() else value


def _text(value: Any) -> str:
    """Return what stdin or stdout has; TACO has some as lists of lines."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def _calls(pairs: Sequence[tuple[Any, Any]], tolerance: float | None, as_json: bool) -> list[AnyTest]:
    """Return the tests of a function; `as_json`: an expected value that is a text is JSON."""
    arguments = [_lines(given) if isinstance(given, str) else list(given) for given, _ in pairs]
    wanted = [_value(value) if as_json else value for _, value in pairs]
    if all(isinstance(value, list) and len(value) == 1 for _, value in pairs):  # a list around each value
        wanted = [value[0] for value in wanted]
    return [Call(given, value, tolerance) for given, value in zip(arguments, wanted, strict=True)]


def _lines(text: str) -> list[Any]:
    """Return the arguments of a test of LiveCodeBench: one JSON value in each line."""
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _longest(tests: list[AnyTest]) -> list[AnyTest]:
    """Return the tests with the longest inputs, in their order."""
    ordered = sorted(range(len(tests)), key=lambda number: -_length(tests[number]))
    return [tests[number] for number in sorted(ordered[:LONGEST])]


def _length(test: AnyTest) -> int:
    return len(json.dumps(test.arguments)) if isinstance(test, Call) else len(test.stdin)
