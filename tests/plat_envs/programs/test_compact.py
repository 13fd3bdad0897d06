"""Programs by example: tests decide between programs, equal programs share a split, and rewards are shares."""

from __future__ import annotations

import pytest

from plat_envs.api import make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS
from plat_envs.policies import POLICIES, fixed_instances, response
from plat_envs.programs.compact import DEPTH_ONE, PROGRAMS, SHOWN, TESTS, ground, small_problem, value
from plat_envs.programs.problem import DeepCoderConfig


def hand_in(environment, program):
    return environment.step(f"add and check the total </think> <answer> {program} </answer>")


@pytest.mark.parametrize("split", SPLITS)
def test_tests_decide_between_programs(split):
    for seed in range(150):
        problem = small_problem(DeepCoderConfig(), split, seed)
        assert len(problem.tests) == len(dict(problem.tests)) == TESTS
        assert all(value(problem.program, x) == wanted for x, wanted in problem.tests)
        fitting = [one for one in DEPTH_ONE if all(value(one, x) == wanted for x, wanted in problem.tests)]
        assert all(ground(one) == ground(problem.program) for one in fitting)


def test_new_programs_are_in_one_split_and_every_kind_is_in_each():
    grounds, kinds = {}, {}
    kind_of = {program: kind for kind, programs in PROGRAMS.items() for program in programs}
    for split in SPLITS:
        problems = [small_problem(DeepCoderConfig(new_programs=True), split, seed) for seed in range(400)]
        grounds[split] = {ground(problem.program) for problem in problems}
        kinds[split] = {kind_of[problem.program] for problem in problems}
    assert sum(map(len, grounds.values())) == len(set().union(*grounds.values()))
    assert all(found == set(PROGRAMS) for found in kinds.values())


def test_the_reward_is_the_share_of_the_tests_or_all():
    for reward, part in (("share", 1 / TESTS), ("all", 0.0)):
        environment = make_environment("deepcoder", {"reward": reward})
        environment.reset(1)
        environment.given = type(environment.given)("x [ 0 ]", tuple(((n, n + 1), n) for n in range(TESTS)))
        assert hand_in(environment, "return 4")[1:3] == (part, True)
        environment.reset(1)
        environment.given = type(environment.given)("x [ 0 ]", tuple(((n, n + 1), n) for n in range(TESTS)))
        _, gained, done, info = hand_in(environment, "return min ( x )")
        assert (gained, done, info["success"]) == (1.0, True, True)


def test_no_program_is_an_invalid_answer_and_a_failing_one_passes_nothing():
    environment = make_environment("deepcoder", {"turns": 2, "reward": "all"})
    assert environment.reset(2).endswith("x = ? 2 <think>")
    assert hand_in(environment, "return print ( x )")[1] == -0.1
    _, gained, done, info = hand_in(environment, "return x [ 9 ]")
    assert (gained, done, info["format_valid"]) == (0.0, True, True)


def test_failing_often_must_not_pay():
    with pytest.raises(BadEnvironment, match="failing often would pay more"):
        make_environment("deepcoder", {"turns": 2})


def test_hidden_tests_are_not_shown():
    environment = make_environment("deepcoder")
    for seed in range(50):
        prompt = environment.reset(seed)
        assert prompt.count(" = ") == SHOWN + 1


def test_policies_order_by_reward():
    environment, seeds = fixed_instances("deepcoder", {}, "heldout", 200)
    import random

    means, solved = [], []
    for policy in POLICIES:
        played = []
        for number, seed in enumerate(seeds):
            environment.reset(seed)
            played.append(environment.step(response(environment, policy, random.Random(number)))[1:4])
        means.append(sum(reward for reward, _, _ in played) / len(played))
        solved.append(sum(info["success"] for _, _, info in played) / len(played))
    assert means == sorted(means) and means[1] - means[0] > 0.1 and means[2] - means[1] > 0.1 and means[3] == 1
    assert solved == sorted(solved)


def test_the_best_constant_solves_nothing_and_earns_a_part_of_the_reward():
    environment, seeds = fixed_instances("deepcoder", {}, "heldout", 200)
    for seed in seeds:
        environment.reset(seed)
        constant = str(environment.best_constant()).replace(",", " ,").replace("[", "[ ").replace("]", " ]")
        _, reward, _, info = environment.step(f"i </think> <answer> return {constant} </answer>")
        assert reward == environment.constant_reward > 0 and not info["success"]
