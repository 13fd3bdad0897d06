"""Scripted policies: what they do, that they are measured on the instances of a run, and how they compare."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.spec.expansion.experiment import build_run, config_object
from plat_analysis.statistics import intervals
from plat_envs.api import make_environment
from plat_envs.instances import distinct_seeds
from plat_envs.policies import POLICIES, ROWS, fixed_instances, main, response, successes, wilson
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.loop.randomness import FixedInstances

TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown", "searchqa", "webshop", "deepcoder")
COUNT = 256
every_task = pytest.mark.parametrize("task", TASKS)


def shares(task, split="validation", **options):
    """Success of each policy on a run's default evaluation set."""
    environment, seeds = fixed_instances(task, options, split, COUNT)
    return {policy: sum(successes(environment, seeds, policy)) / COUNT for policy in POLICIES}


def board(task, **state):
    """An environment whose instance is replaced by a made-up one."""
    environment = make_environment(task)
    environment.reset(0)
    for name, value in state.items():
        setattr(environment, name, value)
    return environment


@every_task
def test_policies_play_the_instances_that_a_run_is_evaluated_on(task):
    run = build_run([f"task={task}", "train.iterations=0", "model.base.version=v3"])
    config = config_object(run, EmbeddedTrainer())
    for split, count in (("validation", config.eval.instances), ("heldout", config.eval.heldout)):
        environment, seeds = fixed_instances(task, {}, split, count)
        instances = FixedInstances(config, split, count)
        assert seeds == instances.seeds
        assert {environment.reset(seed) and environment.problem for seed in seeds} == instances.problems


@every_task
@pytest.mark.parametrize("split", ["validation", "heldout"])
def test_evaluation_sets_hold_distinct_problems(task, split):
    environment, seeds = fixed_instances(task, {}, split, 512)
    assert len({environment.reset(seed) and environment.problem for seed in seeds}) == 512


@every_task
def test_policies_are_in_the_order_of_their_skill(task):
    success = shares(task)
    assert success["optimal"] >= 0.98 and success["random"] <= 0.25
    assert success["random"] < success["blind"] < success["optimal"] and success["greedy"] < success["optimal"]
    # Planning past unseen walls is worth more on Sokoban than one step of sight; on MetaMathQA no step alone helps.
    assert (success["blind"] < success["greedy"]) == (task not in ("sokoban", "metamathqa"))


def test_a_policy_blind_to_holes_wins_most_frozen_lakes_as_published_and_none_that_need_a_detour():
    assert shares("frozenlake")["blind"] > 0.75
    assert shares("frozenlake", success_rate=1.0, detours=1.0)["blind"] == 0
    assert shares("frozenlake", detours=1.0)["optimal"] > 0.9
    assert shares("frozenlake", detours=0.5)["blind"] <= 0.5


@every_task
@pytest.mark.parametrize("policy", POLICIES)
def test_every_response_is_well_formed(task, policy):
    environment, seeds = fixed_instances(task, {}, "train", 40)
    for seed in seeds:
        environment.reset(seed)
        while not environment.done:
            assert environment.step(response(environment, policy, random.Random(seed)))[3]["format_valid"]


@pytest.mark.parametrize("policy", POLICIES)
def test_every_response_of_deepcoder_in_chat_is_well_formed(policy):
    environment, seeds = fixed_instances("deepcoder", {}, "train", 4, "chat")
    for seed in seeds:
        environment.reset(seed)
        _, reward, done, info = environment.step(response(environment, policy, random.Random(seed)))
        assert done and info["format_valid"] and info["success"] == (policy == "optimal") == (reward == 1)


def test_sums_of_numbers():
    environment = board("countdown", numbers=(3, 9, 5), target=7)
    assert environment.blind() == "3 + 9 + 5"
    assert environment.greedy() == "9 + 3 - 5"
    environment = make_environment("metamathqa")
    for seed in range(50):
        environment.reset(seed)
        numbers = [int(word) for word in environment.row.question.split() if word.isdigit()]
        assert environment.blind() == str(sum(numbers))
        first = environment.row.solution.split()[:3]
        assert environment.greedy() == str(eval("".join(first)))


def test_blind_and_greedy_ways_across_a_lake():
    from plat_envs.games.frozenlake import Lake
    from plat_envs.games.ways import distances

    rows = ("FHFF", "FFFF", "FSFG", "FFHF")
    lake = Lake(rows, 9, 11, distances(rows, 11))
    environment = board("frozenlake", lake=lake, position=9)
    assert environment.blind() == environment.greedy() == "right || right"
    rows = ("GHFF", "FFFF", "FSFF", "FFHF")
    environment = board("frozenlake", lake=Lake(rows, 9, 0, distances(rows, 0)), position=9)
    assert environment.blind() == "up || up", "the hole lies on the straight way"
    assert environment.greedy() == "up || left", "it is seen from the cell before it"


def test_blind_and_greedy_pushes():
    from plat_envs.games.sokoban import Puzzle

    outer = frozenset(cell for cell in range(36) if cell // 6 in (0, 5) or cell % 6 in (0, 5))
    puzzle = Puzzle(outer | {15}, (16,), (13, (14,)))  # player, box, wall and target in one row
    environment = board("sokoban", puzzle=puzzle, player=13, boxes=(14,))
    assert environment.blind() == "right || right"
    assert "right" not in environment.greedy().split(), "the push is seen to be impossible"


@given(count=st.integers(1, 2000), share=st.floats(0, 1))
def test_intervals_are_those_of_the_reports(count, share):
    solved = round(share * count)
    low, high = intervals.wilson(solved, count)
    assert wilson(solved, count) == pytest.approx((float(low), float(high)), abs=1e-12)


def test_the_command_prints_one_task_or_all(capsys):
    assert main(["frozenlake", "detours=1", "--instances", "16", "--split", "train"]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["task", *POLICIES] and line.startswith("frozenlake detours=1  ") and line.count("[") == 4
    assert main(["--instances", "8", "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ROWS) + 2 and lines[1] == "|---|---|---|---|---|"
    assert {line.split()[1] for line in lines[2:]} == {*TASKS, "bandit"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sokobann"], "did you mean 'sokoban'"),
        (["sokoban", "wals=1"], "no option 'wals'"),
        (["sokoban", "--instances", "0"], "0 instances"),
        (["countdown", "largest=3", "--instances", "400"], "--instances"),
    ],
)
def test_bad_input_is_one_line(capsys, arguments, said):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.err.count("\n") == 1 and not captured.out


def test_distinct_seeds_skip_repeats_until_instances_run_out():
    class Player:
        def reset(self, seed: int) -> str:
            self.problem = str(min(seed % 10, 3))
            return f"prompt {seed}"

    assert distinct_seeds(Player(), 0, 3) == [0, 1, 2]
    assert distinct_seeds(Player(), 0, 4) == [0, 1, 2, 3]
    assert distinct_seeds(Player(), 8, 4) == [8, 10, 11, 12]
    assert len(distinct_seeds(Player(), 0, 6)) == 6
    assert distinct_seeds(Player(), 0, 2, excluded={"1"}) == [0, 2]
