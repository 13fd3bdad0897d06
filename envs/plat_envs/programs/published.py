"""Problems of DeepCoder-Preview from a file or the hub."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat_envs.data import of_split
from plat_envs.environment_errors import BadEnvironment
from plat_envs.programs.problem import AnyTest, DeepCoderConfig, Problem
from plat_envs.programs.rows import Listed, Rows, file_rows
from plat_envs.sandbox.program import Call, Test, unfence
from plat_envs.sandbox.sandbox import parse

LARGEST_COUNTED = 64 << 20  # bytes of a file whose problems are counted before its runs start


@lru_cache(maxsize=512)
def published_problem(config: DeepCoderConfig, split: str, seed: int) -> Problem:
    """Return the problem of a seed: seed 0 gives the first of the split, and so on; after the last, the first again.

    Raises BadEnvironment if the rows cannot be read, a row has no tests, or none is in the split.
    """
    pool = _pool(config, split)
    number = pool[seed % len(pool)]
    rows = _rows(config)
    where = f"{config.path or config.dataset}: row {number}"
    return problem_of_row(rows.row(number), rows.keys[number], config.tests, where)


def problem_of_row(row: dict[str, Any], key: str, which: str, where: str) -> Problem:
    """Return the problem of a row; `which` is the option `tests`. Raises BadEnvironment for a bad row."""
    function, tests = function_and_tests(row, which, where)
    solutions = row.get("solutions") or []
    reference = solutions[0] if isinstance(solutions, list) else solutions
    kind = (
        f"Write the function `{function}`." if function else "Write a program that reads stdin and prints the answer."
    )
    starter = str(row.get("starter_code") or "").strip()
    return Problem(
        key=key,
        statement="\n\n".join(filter(None, [str(row["problem"]).strip(), kind, starter])),
        function=function,
        example=None,
        hidden=tuple(tests),
        reference=unfence(str(reference)),
        given="the arguments of a function" if function else "the text of stdin",
        gives="its value" if function else "a printed text",
    )


@lru_cache(maxsize=16)
def _pool(config: DeepCoderConfig, split: str) -> list[int]:
    """Return the numbers of the rows of a split, which the hash of a problem decides."""
    shared = config.shared_pool or config.split == "released"
    numbered = list(enumerate(_rows(config).keys))
    return [number for number, _ in of_split("deepcoder", numbered, lambda item: item[1], split, shared)]


def _rows(config: DeepCoderConfig) -> Rows:
    if config.data == "file":
        return file_rows(config.path)
    return _hub_rows(config.dataset, config.subsets, config.revision)


@lru_cache(maxsize=2)
def _hub_rows(dataset: str, subsets: str, revision: str) -> Rows:
    """Return the training rows of parts of a dataset on the hub. Raises BadEnvironment if they cannot be loaded."""
    try:
        from datasets import concatenate_datasets, load_dataset
    except ImportError:
        fix = "pip install 'plat[hub]', or use data: file with path"
        raise BadEnvironment("data: hub needs a package that is not installed: datasets", fix=fix) from None
    try:
        parts = [load_dataset(dataset, name, split="train", revision=revision or None) for name in subsets.split(",")]
        wanted = ("problem", "tests", "solutions", "starter_code", "metadata")
        parts = [part.select_columns([name for name in wanted if name in part.column_names]) for part in parts]
        rows = parts[0] if len(parts) == 1 else concatenate_datasets(parts)
        return Listed(rows, list(rows["problem"]), f"hub:{dataset}")
    except BadEnvironment:
        raise
    except Exception as error:  # network, cache and dataset raise errors of many classes
        fix = "download it once where there is a network (HF_HOME), or use data: file with path"
        what = f"cannot load the dataset: {type(error).__name__}: {error}"
        raise BadEnvironment(what, where=f"hub:{dataset}", fix=fix) from None


def is_countable(config: DeepCoderConfig) -> bool:
    """Return True if planning can count the problems: they are generated, or in a file that is quickly read."""
    if config.data != "file":
        return config.data == "generated"
    path = Path(config.path)
    return not path.is_file() or path.stat().st_size <= LARGEST_COUNTED


# The tests of a row of DeepCoder-Preview, which come in three shapes.
#
# LiveCodeBench    [{"input": "1\n2", "output": "3", "testtype": "functional"}, ...]: one JSON value a line; or "stdin"
# PrimeIntellect   [{"type": "function_call", "fn_name": "f", "input": [1, 2], "output": [3]}, ...]; or "stdin_stdout"
# TACO             {"fn_name": "f", "inputs": [[1, 2], ...], "outputs": [[3], ...]}; without a function, texts

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
