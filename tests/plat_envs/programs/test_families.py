"""Every family: its reference passes, each mutant fails, in this process and in the sandbox."""

from __future__ import annotations

import random

import pytest

from plat_envs.programs.families.values import KINDS
from plat_envs.programs.generated import FAMILIES, HIDDEN, LARGEST_CONSTANT, make_problem, value_of
from plat_envs.programs.problem import best_constant
from plat_envs.sandbox import levels
from plat_envs.sandbox.program import Call, Limits
from plat_envs.sandbox.sandbox import Sandbox

every_family = pytest.mark.parametrize("name", sorted(FAMILIES))


def drawn(name, function, seed=0):
    """A problem of a family; which parameters it has depends on the seed."""
    family, rng = FAMILIES[name], random.Random(f"{name}/{seed}")
    for _ in range(20):
        parameters = {key: rng.choice(values) for key, values in family.parameters.items()}
        if problem := make_problem(rng.random(), family, parameters, function):
            return problem
    raise AssertionError(f"no problem of {name} has tests that tell its mutants apart")


@every_family
def test_tests_tell_the_reference_from_each_mutant(name):
    for seed in range(4):
        problem = drawn(name, True, seed)
        tests = problem.hidden
        assert len(tests) == HIDDEN and all(isinstance(test, Call) and test != problem.example for test in tests)
        assert len(set(problem.wrong)) == 4
        assert all(value_of(problem.reference, name, test.arguments) == test.expected for test in tests)
        passed = [sum(value_of(wrong, name, t.arguments) == t.expected for t in tests) for wrong in problem.wrong]
        assert max(passed) < HIDDEN and passed == sorted(passed, reverse=True)
        assert best_constant(tests)[1] <= LARGEST_CONSTANT


@every_family
def test_a_family_says_what_it_wants(name):
    family = FAMILIES[name]
    assert all(kind in KINDS and KINDS[kind].given for kind, _ in family.arguments.values())
    assert KINDS[family.result].printed
    for function in (False, True):
        statement = drawn(name, function).statement
        assert "$" not in statement and ("def " in statement) == function
        assert all(f"`{argument}`" in statement for argument in family.arguments)


def test_the_sandbox_agrees():
    """References pass all tests, read from stdin and called; each mutant fails one that it fails in this process."""
    if problem := levels.problem_of("namespaces") and levels.problem_of("landlock"):
        pytest.skip(problem)
    jobs, wanted = [], []
    for name in FAMILIES:
        called, read = drawn(name, True), drawn(name, False)
        jobs += [(problem.program(problem.reference), problem.hidden) for problem in (called, read)]
        wanted += [True, True]
        for wrong in called.wrong:
            test = next(t for t in called.hidden if value_of(wrong, name, t.arguments) != t.expected)
            jobs.append((called.program(wrong), [test]))
            wanted.append(False)
    grades = Sandbox(limits=Limits(cpu_seconds=2)).grade_all(jobs)
    assert [all(grade.passed) for grade in grades] == wanted


# Independent answers for some statements, as a reader would compute them by hand.
BY_HAND = [
    ("leap_days", {"every": 4, "but": 12, "yet": 72}, [1, 72], 18 - 6 + 1),
    ("in_base", {"base": 11, "prefix": "z"}, [10 + 11 * 3], "z3a"),
    ("steps_to_one", {"most": 20, "per_odd": 2}, [6], 8 + 2 * 2),
    ("clock", {"loses": 5, "colon": ":"}, [600, 120], "11:50"),
    ("brackets", {"factor": 3, "minus": 20}, ["(()[])"], 6),
    ("brackets", {"factor": 3, "minus": 20}, ["(()]"], 3 - 20),
    ("brackets", {"factor": 3, "minus": 20}, ["(()"], 3 - 20),
    ("encoded_runs", {"least": 2, "mark": "-"}, ["aabaaa"], "a2-b-a3"),
    ("palindrome_centre", {"factor": 10, "origin": 1}, ["abba"], 41),
    ("abbreviations", {"keep": 4, "factor": 2}, [["abcdefg", "abcd"]], ["a10g", "abcd"]),
    ("merged_spans", {"gap": 1, "factor": 2}, [[[5, 8], [0, 2], [3, 4]]], [16]),
    ("busiest", {"factor": 30, "empty": 1}, [[[0, 2], [1, 3], [2, 4]]], 2 * 30 + 1),
    ("chosen_spans", {"pause": 1, "factor": 2}, [[[0, 2], [2, 4], [3, 5]]], 4),
    ("robot", {"step": 2, "wall": 10}, ["FLFRF", 0], [4, 2]),
    ("water", {"wide": 2, "more": 1}, [[2, 0, 2]], 5),
    ("elimination", {"every": 2, "more": 5}, [7], 12),
    ("fewest_coins", {"a": 3, "b": 6, "c": 9, "missing": 2}, [10], -2),
    ("fewest_coins", {"a": 3, "b": 6, "c": 9, "missing": 2}, [12], 2),
    ("stairs", {"small": 1, "large": 2, "by": 79}, [5], 8),
    ("rising_part", {"step": 2, "factor": 2}, [[1, 2, 3, 0, 5]], 6),
    ("robber", {"apart": 1, "more": 1}, [[5, 1, 1, 5]], 11),
    ("change", {"large": 20, "middle": 3}, [47], 2 + 2 + 1),
    ("rotated", {"times": 2, "more": 10}, [[1, 2, 3], 1], [13, 1, 2]),
    ("interleaved", {"of_a": 2, "of_b": 1, "more": 10}, [[1, 2, 3], [4, 5]], [1, 2, 14, 3, 15]),
    ("majority", {"missing": 50, "factor": 2}, [[1, 2]], 56),
    ("queue_time", {"pause": 1, "factor": 2}, [[3, 5, 2], 2], 14),
    ("box_packing", {"apiece": 2, "more": 10}, [7, [2, 1]], 13),
    ("first_repeat", {"more": 1}, [1], 17),
]


@pytest.mark.parametrize(("name", "parameters", "arguments", "value"), BY_HAND)
def test_answers_by_hand(name, parameters, arguments, value):
    assert value_of(FAMILIES[name].sources(parameters)[0], name, arguments) == value
