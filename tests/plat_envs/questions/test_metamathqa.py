"""Word problems: read back from their words by an independent reader, with at least two steps."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from plat_envs.api import make_environment
from plat_envs.questions.metamathqa import MetaMathQAConfig, problem_of


def answer(text):
    return f"x </think> <answer> {text} </answer>"


def solve(question):
    """The answer from the words alone."""
    opening, *events, last = question.split(" . ")
    assert last == "how many ?"
    numbers = [int(word) for word in opening.split() if word.isdigit()]
    if "boxes" in opening:
        value = numbers[0] * numbers[1]
    elif "twice" in opening:
        value = 2 * numbers[0]
    else:
        value = sum(numbers)
    owner, steps = opening.split()[0], len(numbers) - 1 + ("twice" in opening)
    for event in events:
        steps += 1
        number = int((re.findall(r"\d+", event) or ["0"])[0])
        if "twice" in event:
            value *= 2
        elif re.match(rf"{owner} (gives|loses|sells)", event):
            value -= number
        else:
            value += number
    return value, steps


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_the_words_give_the_answer(split):
    steps = Counter()
    for seed in range(400):
        problem = problem_of(MetaMathQAConfig(), split, seed)
        value, count = solve(problem.question)
        assert str(value) == problem.answer and 0 <= value <= 30
        steps[count] += 1
    assert set(steps) == {2, 3}


def test_solutions_are_right_step_by_step():
    for seed in range(400):
        problem = problem_of(MetaMathQAConfig(), "train", seed)
        words = problem.solution.split()
        value = int(words[0])
        for operator, operand, _, result in zip(words[1::4], words[2::4], words[3::4], words[4::4], strict=True):
            value = {"+": value + int(operand), "-": value - int(operand), "*": value * int(operand)}[operator]
            assert value == int(result) and 0 <= value <= 30
        assert str(value) == problem.answer


def test_no_sum_is_in_two_splits_in_other_words():
    sums = {
        split: {problem_of(MetaMathQAConfig(), split, seed).solution for seed in range(2000)}
        for split in ("train", "validation", "heldout")
    }
    assert not sums["train"] & sums["validation"] and not (sums["train"] | sums["validation"]) & sums["heldout"]


def test_case_and_space_do_not_count():
    environment = make_environment("metamathqa")
    environment.reset(0)
    environment.row = environment.row.__class__("?", "", "x = 1 Half", "?")
    assert environment.step(answer("X=1 half"))[1] == 1.0


def test_a_wrong_answer_ends_the_only_turn():
    environment = make_environment("metamathqa")
    environment.reset(0)
    _, reward, done, info = environment.step(answer("99"))
    assert (reward, done, info["success"], info["format_valid"]) == (0.0, True, False, True)


def test_later_attempts_pay_half_each():
    environment = make_environment("metamathqa", {"turns": 5}, rendering="chat")
    for wrong in range(5):
        environment.reset(3)
        for _ in range(wrong):
            observation, reward, done, _ = environment.step(answer("99"))
            assert reward == 0 and not done and "wrong" in observation
        _, reward, done, info = environment.step(answer(environment.row.answer))
        assert reward == 0.5**wrong and done and info["success"]
