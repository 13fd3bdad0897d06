"""The evaluator says what Python says, on thousands of programs, and runs nothing that is no program."""

from __future__ import annotations

import json
import random

import pytest

from plat_envs.programs.compact import PROGRAMS
from plat_envs.programs.evaluator import LARGEST, LONGEST, equal, parse, run
from plat_envs.sandbox import levels
from plat_envs.sandbox.program import Limits, Program
from plat_envs.sandbox.sandbox import Sandbox

NINES = "9 * 9" + " * 9" * 6
NESTED = "[[[[0]*99]*99]*99]*99"
SLOW = f"{NESTED} == {NESTED}"  # 99 ** 4 comparisons
KNOWN = {"max": max, "min": min, "len": len}
LISTS = [[], [0], [3, 1, 4], [9, 2, 2, 7], [5, 5]]


def drawn(rng, depth, names=("x",)):
    """A random expression as text: numbers, lists, calls, indices, slices, comprehensions, conditions."""
    if depth == 0:
        return rng.choice([*names, str(rng.randint(0, 9)), "x", "x [ 0 ]", "len ( x )", "[ ]"])

    def part(more=()):
        return drawn(rng, depth - 1, (*names, *more))

    return rng.choice(
        [
            lambda: f"{part()} {rng.choice('+-*')} {part()}",
            lambda: f"- {part()}",
            lambda: f"( {part()} )",
            lambda: f"{rng.choice(['max', 'min', 'len'])} ( {part()} )",
            lambda: f"max ( {part()} , {part()} )",
            lambda: f"x [ {part()} ]",
            lambda: f"x [ {part()} : ]",
            lambda: f"{part()} [ : {part()} ]",
            lambda: f"[ {part(('y',))} for y in {part()} ]",
            lambda: f"[ {part()} , {part()} ]",
            lambda: f"( {part()} if {part()} {rng.choice(['in', 'not in', '<', '==', '>='])} {part()} else {part()} )",
        ]
    )()


def small(value):
    """True if no number and no list in a value is larger than the evaluator allows."""
    if isinstance(value, list):
        return len(value) <= LONGEST and all(map(small, value))
    return abs(value) <= LARGEST


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_values_are_those_of_python():
    rng, compared, values = random.Random(3), 0, set()
    for _ in range(4000):
        text = f"return {drawn(rng, rng.randint(1, 3))}"
        program = parse(text)
        assert program is not None, text
        for x in LISTS:
            try:
                wanted = eval(text.removeprefix("return "), {"__builtins__": KNOWN, "x": x})
            except (TypeError, ValueError, IndexError):
                wanted = None
            if wanted is None or small(wanted):
                got = run(program, x)
                assert got == wanted and type(got) is type(wanted), (text, x)
                compared += 1
                values.add(repr(wanted))
    assert compared > 19_000 and len(values) > 300


@pytest.mark.parametrize(
    "text",
    [
        "",
        "return",
        "returnx",
        "import os",
        "__import__('os')",
        "x.append(1)",
        "x.__class__",
        "print(x)",
        "max",
        "max()",
        "max(x, key=len)",
        "lambda: x",
        "f'{x}'",
        "'x'",
        "1.5",
        "True",
        "1 / 2",
        "2 ** 99",
        "1 << 9",
        "z",
        "y",
        "[y for y in x if y]",
        "[y for y in x for z in x]",
        "[y for y, z in x]",
        "{1}",
        "{1: 2}",
        "(x, x)",
        "(y := 1)",
        "x[1, 2]",
        "*x",
        "x; x",
        "return return x",
        "x\n\nx",
        "max ( х )",  # a Cyrillic letter
        "x" + " + x" * 200,
        "(" * 200 + "x" + ")" * 200,
        "\x00",
    ],
)
def test_no_programs(text):
    assert parse(text) is None


@pytest.mark.parametrize(
    "text", ["x * 999999", "[ [ x for y in x ] * 90 for y in x ] * 90", NINES, SLOW, f"max({SLOW}, x)"]
)
def test_programs_that_take_too_much_fail(text):
    program = parse(text)
    assert program is not None and run(program, [1, 2, 3]) is None


def test_a_bool_is_no_number():
    assert equal(3, 3) and equal([1, 2], [1, 2]) and not equal(True, 1) and not equal([True], [1])
    assert not equal(None, 0) and not equal([1], 1) and not equal(1, [1]) and not equal([1, 2], [1])


TOGETHER = 100  # expressions in one program, which says the value of each
EVERY = """
def every(x):
    return [value(one, x) for one in (
{expressions}
    )]

def value(one, x):
    try:
        return [one(list(x))]
    except (TypeError, ValueError, IndexError):
        return None
"""


def compared(texts, lists):
    """How many values were compared; each is that of Python in the sandbox."""
    groups = [texts[start : start + TOGETHER] for start in range(0, len(texts), TOGETHER)]
    sandbox, count = Sandbox(limits=Limits(cpu_seconds=10)), 0
    for group in groups:
        expressions = "\n".join(f"        lambda x: ({text.removeprefix('return ')})," for text in group)
        program = Program(EVERY.format(expressions=expressions), "every")
        outcomes = sandbox.run(program, [json.dumps([x]) for x in lists])
        for x, outcome in zip(lists, outcomes, strict=True):
            assert outcome.status == "ok", outcome.stderr
            for text, wanted in zip(group, json.loads(outcome.stdout), strict=True):
                tree = parse(text)
                assert tree is not None, text
                if wanted is None or small(wanted[0]):
                    got = run(tree, x)
                    assert (None if wanted is None else json.dumps(wanted[0])) == (
                        None if got is None else json.dumps(got)
                    ), (text, x)
                    count += 1
    return count


@pytest.fixture
def has_sandbox():
    if levels.problem_of("namespaces") and levels.problem_of("landlock"):
        pytest.skip("no sandbox here")


def test_random_programs_in_the_sandbox(has_sandbox):
    rng = random.Random(11)
    texts = [f"return {drawn(rng, rng.randint(1, 3))}" for _ in range(3000)]
    assert compared(texts, LISTS) > 14_000


def test_programs_of_problems_in_the_sandbox(has_sandbox):
    texts = [f"return {program}" for programs in PROGRAMS.values() for program in programs]
    assert compared(texts, [[3, 1, 4], [0, 9]]) > 1000
