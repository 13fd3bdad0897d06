"""Countdown: rewards, both rules about numbers, and problems solved by trying everything."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat_envs.api import make_environment
from plat_envs.questions.countdown import CountdownConfig, problem_of, subtracted
from plat_envs.questions.expression import evaluate


def answer(expression):
    return f"x </think> <answer> {expression} </answer>"


def can_be_made(numbers, target):
    """Every order and every sign after the first number."""
    return any(
        order[0] + sum(sign * number for sign, number in zip(signs, order[1:], strict=True)) == target
        for order in set(permutations(numbers))
        for signs in product((1, -1), repeat=len(numbers) - 1)
    )


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_every_problem_can_be_solved(split):
    counts = set()
    for seed in range(200):
        numbers, target = problem_of(CountdownConfig(), split, seed)
        assert can_be_made(numbers, target) and target not in numbers
        assert all(1 <= number <= 12 for number in numbers) and 1 <= target <= 30
        counts.add(len(numbers))
    assert counts == {3, 4}


@given(st.lists(st.integers(1, 12), min_size=1, max_size=4), st.integers(-5, 40))
def test_the_solver_equals_trying_everything(numbers, target):
    minus = subtracted(tuple(numbers), target)
    assert (minus is not None) == can_be_made(numbers, target)
    if minus is not None:
        assert sum(-n if i in minus else n for i, n in enumerate(numbers)) == target
        assert len(minus) < len(numbers)


def test_no_split_has_another_ones_problem_in_another_order():
    seen = {
        split: {(tuple(sorted(n)), t) for n, t in (problem_of(CountdownConfig(), split, s) for s in range(1500))}
        for split in ("train", "validation", "heldout")
    }
    assert not seen["train"] & seen["validation"] and not (seen["train"] | seen["validation"]) & seen["heldout"]


@pytest.fixture
def play():
    def played(rule, numbers, target, expression):
        environment = make_environment("countdown", {"numbers": rule})
        environment.reset(0)
        environment.numbers, environment.target = numbers, target
        _, reward, done, info = environment.step(answer(expression))
        assert done
        return reward, info["success"], info["format_valid"]

    return played


@pytest.mark.parametrize("rule", ["at_most_once", "all_exactly_once"])
def test_rewards(play, rule):
    assert play(rule, (3, 7, 5), 5, "3 + 7 - 5") == (1.0, True, True)
    assert play(rule, (3, 7, 5), 5, "7 - 5 + 3") == (1.0, True, True)
    assert play(rule, (3, 7, 5), 5, "3 + 7 + 5") == (0.1, False, True)
    assert play(rule, (3, 7, 5), 5, "2 + 3") == (0.0, False, True)
    assert play(rule, (3, 7, 5), 10, "3 + 3 + 7 - 3") == (0.0, False, True)
    assert play(rule, (3, 7, 5), 5, "3 + + 7") == (-0.1, False, False)
    assert play(rule, (3, 7, 5), 5, "3 + 7 - 5 = 5") == (-0.1, False, False)
    assert play(rule, (2, 3, 4), 20, "(2 + 3)*4") == (1.0, True, True)


def test_the_two_rules_differ_where_numbers_are_left_over(play):
    assert play("at_most_once", (3, 7, 5), 10, "3 + 7") == (1.0, True, True)
    assert play("all_exactly_once", (3, 7, 5), 10, "3 + 7") == (0.0, False, True)
    assert play("at_most_once", (3, 7, 5), 5, "3 + 7") == (0.1, False, True)


NUMBER = st.integers(0, 99).map(lambda n: (str(n), Fraction(n), [n]))


def _combined(children):
    def combine(parts):
        (left, x, used), operator, (right, y, more) = parts
        if operator == "/" and y == 0:
            operator = "+"
        value = {"+": x + y, "-": x - y, "*": x * y}[operator] if operator != "/" else x / y
        return f"({left} {operator}{right})", value, used + more

    return st.tuples(children, st.sampled_from("+-*/"), children).map(combine)


@given(st.recursive(NUMBER, _combined, max_leaves=6))
def test_expressions_have_their_exact_value(case):
    text, value, numbers = case
    assert evaluate(text) == (value, numbers)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_products_bind_tighter_and_sums_go_from_the_left(a, b, c):
    assert evaluate(f"{a} - {b} * {c}")[0] == a - b * c
    assert evaluate(f"{a} - {b} - {c}")[0] == a - b - c
    assert evaluate(f"{a} / {c} * {b}")[0] == Fraction(a, c) * b
    assert evaluate(f"-{a} + {b}")[0] == b - a


@pytest.mark.parametrize(
    "text",
    ["", "+", "1 2", "1 / 0", "(1", "1)", "()", "a", "1.5", "²", "٣", "2 ** 3", "(" * 90 + "1" + ")" * 90, "1+" * 99],
)
def test_what_is_no_expression(text):
    assert evaluate(text) is None


def test_grounded_reasoning_adds_up():
    environment = make_environment("countdown")
    for seed in range(200):
        environment.reset(seed)
        words = environment._facts("", several=True).split()
        *sums, minus = (int(word) for word in words if word.isdigit())
        assert sums == [sum(environment.numbers[: n + 2]) for n in range(len(environment.numbers) - 1)]
        assert sums[-1] - 2 * minus == environment.target


def test_three_numbers_leave_a_blank():
    environment = make_environment("countdown", {"four": 0.0})
    assert environment.reset(0).split()[4:6] == ["_", "="]
