"""DeepCoder in chat: what a prompt says, how an answer is read and graded, and how the policies order."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest

from plat_envs.api import LEVELS, configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, evaluation_seeds
from plat_envs.policies import POLICIES, fixed_instances, main, response
from plat_envs.programs import chat
from plat_envs.programs.generated import FAMILIES
from plat_envs.programs.problem import Problem, best_constant
from plat_envs.sandbox import levels
from plat_envs.sandbox.program import Call, Test
from plat_envs.sandbox.sandbox import Sandbox

DOUBLE = Problem("double", "Print the double.", None, None, tuple(Test(str(n), str(2 * n)) for n in (1, 2, 2, 5)))
PLUS = Problem("plus", "Add.", "plus", None, (Call([1, 2], 3), Call([2, 2], 4)))


@pytest.fixture(autouse=True)
def _has_sandbox():
    if levels.problem_of("namespaces") and levels.problem_of("landlock"):
        pytest.skip("no sandbox here")


def environment_of(split="train", **options):
    return make_environment("deepcoder", options, split, "chat")


def hand_in(problem, answer, **options):
    """Reward and info of an answer to a made-up problem."""
    environment = environment_of(**options)
    environment.reset(0)
    environment.given = problem
    _, reward, done, info = environment.step(f"x </think> <answer>\n{answer}\n</answer>")
    assert done
    return reward, info


def test_the_reward_is_the_share_of_the_hidden_tests_or_all():
    part = "print(2 * min(2, int(input())))"
    assert hand_in(DOUBLE, part) == (0.75, {**hand_in(DOUBLE, part)[1], "success": False, "constant_reward": 0.5})
    assert hand_in(DOUBLE, part, reward="all")[0] == 0.0
    assert hand_in(DOUBLE, "print(2 * int(input()))", reward="all")[0] == 1.0
    assert hand_in(PLUS, "def plus(a, b):\n    return a + b")[1]["success"]
    assert hand_in(PLUS, "class Solution:\n    def plus(self, a, b):\n        return a + b")[0] == 1.0


@pytest.mark.parametrize(
    "answer",
    [
        "```python\nprint(2 * int(input()))\n```",
        "Here it is:\n~~~\nprint(2 * int(input()))\n~~~\nIt doubles.",
        "x = int(input()) or 0 # a || b\nprint(2 * x)",
    ],
)
def test_fences_are_removed_and_nothing_is_cut(answer):
    assert hand_in(DOUBLE, answer)[0] == 1.0


@pytest.mark.parametrize("answer", ["", "```python\n```", "   "])
def test_an_empty_answer_is_invalid(answer):
    reward, info = hand_in(DOUBLE, answer)
    assert reward == -0.1 and not info["format_valid"] and info["actions"] == 0 and info["tricks"] == []


@pytest.mark.parametrize(
    ("answer", "tricks"),
    [
        ("no program at all", []),
        ("import os\nos._exit(0)", ["ends", "imports"]),
        ("print(open('/etc/passwd'))", ["places"]),
    ],
)
def test_what_is_no_solution_earns_nothing(answer, tricks):
    reward, info = hand_in(DOUBLE, answer)
    assert (reward, info["success"], info["format_valid"], info["tricks"]) == (0.0, False, True, tricks)


def test_a_program_that_sleeps_or_loops_is_ended_after_the_limits_of_the_options():
    limits = {"cpu_seconds": 0.2, "wall_seconds": 0.3}
    assert configure(find_environment("deepcoder"), {}).limits.wall == 4.0
    outcomes = [hand_in(DOUBLE, text, **limits)[0] for text in ("import time\ntime.sleep(60)", "while True: pass")]
    assert outcomes == [0.0, 0.0]


def test_a_prompt_has_the_statement_the_contract_and_an_example():
    environment, kinds = environment_of(), set()
    for seed in range(20):
        prompt = environment.reset(seed)
        given = environment.given
        kinds.add(given.function is None)
        assert given.statement in prompt and prompt.count("Example") == 1 and "Turn 1" in prompt
        assert ("reads stdin" in prompt) == (given.function is None)
        assert (f"def {given.function}(" in prompt) == (given.function is not None)
        assert "def " not in prompt.replace(f"def {given.function}(", "")
    assert kinds == {True, False}


@pytest.mark.parametrize("split", SPLITS)
def test_each_split_has_512_different_problems(split):
    environment = environment_of(split)
    seeds = evaluation_seeds(environment, 123, 512)
    assert len({environment.reset(seed) and environment.problem for seed in seeds}) == 512


@pytest.mark.parametrize("new", [False, True])
def test_splits_share_no_family_with_these_parameters_or_no_family(new):
    seen = {}
    for split in SPLITS:
        environment = environment_of(split, new_programs=new)
        problems = {environment.problem for seed in range(400) if environment.reset(seed)}
        seen[split] = {problem.partition(" ")[0] for problem in problems} if new else problems
    assert all(not seen[one] & seen[other] for one, other in combinations(SPLITS, 2))
    assert not new or set().union(*seen.values()) == set(FAMILIES)


def test_a_reasoning_has_the_level_of_its_demonstration():
    environment, rng = environment_of(), random.Random(1)
    for seed in range(100):
        environment.reset(seed)
        for level in LEVELS:
            reasoning = environment.demonstrate(rng, level).partition(" </think>")[0]
            assert environment.reasoning_level(reasoning) == level, reasoning
        assert environment.reasoning_level("The input is odd. So I write it.") == "wrong_facts"
        assert environment.reasoning_level("So I write it.") is None


def test_policies_order_by_reward():
    _, seeds = fixed_instances("deepcoder", {}, "heldout", 32, "chat")

    def result(policy, seed):
        environment = environment_of("heldout")
        environment.reset(seed)
        _, reward, _, info = environment.step(response(environment, policy, random.Random(seed)))
        return info["success"], reward

    with ThreadPoolExecutor(32) as threads:
        results = [list(threads.map(result, [policy] * len(seeds), seeds)) for policy in POLICIES]
    means = [sum(reward for _, reward in result) / len(result) for result in results]
    assert means[0] + 0.05 < means[1] and means[1] + 0.2 < means[2] < 0.95 and means[3] == 1
    assert [sum(success for success, _ in result) for result in results[1:3]] == [0, 0]


def test_the_command_measures_rewards_in_chat(capsys):
    assert main(["deepcoder", "--rendering", "chat", "--reward", "--instances", "2"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("1.00 [1.00, 1.00]")


def test_the_best_constant_is_the_most_common_output():
    assert best_constant(DOUBLE.hidden) == ("4", 0.5)
    equal = (Test("1", "a \n"), Test("2", "b"), Test("3", "a"))
    assert best_constant(equal) == ("a \n", 2 / 3)
    assert best_constant((Call([1], True), Call([2], 1), Call([3], True)))[1] == 2 / 3, "True is not 1"
    assert hand_in(DOUBLE, DOUBLE.constant("4"))[0] == 0.5 and hand_in(PLUS, PLUS.constant(4))[0] == 0.5


def test_programs_that_wait_are_graded_together(monkeypatch):
    """One batch at a time: those that come meanwhile are the next one."""
    first, sizes = threading.Event(), []

    def grade_all(self, jobs):
        sizes.append(len(jobs))
        if len(sizes) == 1:
            assert first.wait(20)
        return [program.source for program, _ in jobs]

    monkeypatch.setattr(Sandbox, "grade_all", grade_all)
    own = chat.Grader(None, None, configure(find_environment("deepcoder"), {}).limits)
    with ThreadPoolExecutor(8) as threads:
        results = [threads.submit(own.grade, DOUBLE.program(str(n)), DOUBLE.hidden) for n in range(8)]
        while len(own._waiting) < 7:
            pass
        first.set()
        assert [result.result() for result in results] == [str(n) for n in range(8)]
    assert sizes == [1, 7]


def test_an_error_of_the_sandbox_reaches_all_who_wait_and_the_next_is_graded(monkeypatch):
    own = chat.Grader(None, None, configure(find_environment("deepcoder"), {}).limits)
    with monkeypatch.context() as patched:
        patched.setattr(Sandbox, "grade_all", lambda self, jobs: (_ for _ in ()).throw(BadEnvironment("no box")))
        with pytest.raises(BadEnvironment, match="no box"):
            own.grade(DOUBLE.program("print(1)"), DOUBLE.hidden)
    assert own.grade(DOUBLE.program("print(2)"), DOUBLE.hidden).share == 0.25
    with pytest.raises(BadEnvironment, match="has no tests"):
        own.grade(DOUBLE.program("print(2)"), ())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sandbox": "limits_only"}, "refused for programs of a language model"),
        ({"sandbox": "remote"}, "belong together"),
        ({"grader": "http://127.0.0.1:9"}, "belong together"),
        ({"sandbox": "none"}, "limits_only"),
        ({"reward": "half"}, "share"),
        ({"cpu_seconds": 0.0}, "cpu_seconds"),
        ({"split": "fair"}, "honest"),
        ({"tests": "longest"}, "longest_15"),
    ],
)
def test_wrong_options_are_one_message(options, said):
    with pytest.raises(BadEnvironment, match=said) as raised:
        spec = find_environment("deepcoder")
        spec.make(configure(spec, options), "train", "chat")
    assert "\n" not in str(raised.value)


def test_an_episode_may_have_several_programs():
    environment = environment_of(turns=2, reward="all")
    environment.reset(0)
    _, _, done, _ = environment.step("x </think> <answer> </answer>")
    assert not done and environment.step("x </think> <answer> print(1) </answer>")[2]
