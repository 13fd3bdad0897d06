"""FrozenLake against gymnasium's own, its maps against a plain search, its slips against their odds."""

from __future__ import annotations

import random
from collections import Counter

import gymnasium
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

from plat_envs.api import make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.games.frozenlake import GYM_ACTIONS, FrozenLakeConfig, lake, slips

MOVES = tuple(GYM_ACTIONS)


def answer(*moves):
    return f"x </think> <answer> {' || '.join(moves)} </answer>"


def test_episodes_equal_gymnasiums_on_hard_ice():
    environment = make_environment("frozenlake", {"success_rate": 1.0, "turns": 15, "max_solution": 8})
    for seed in range(60):
        environment.reset(seed)
        theirs = gymnasium.make(
            "FrozenLake-v1", desc=list(environment.lake.rows), is_slippery=False, max_episode_steps=1000
        )
        cell, _ = theirs.reset(seed=0)
        assert cell == environment.position
        rng, done = random.Random(seed), False
        while not done:
            move = rng.choice(MOVES)
            _, reward, done, info = environment.step(answer(move))
            cell, their_reward, terminated, _, _ = theirs.step(GYM_ACTIONS[move])
            assert (environment.position, reward) == (cell, their_reward)
            assert info["success"] == (terminated and their_reward == 1)
            if done:
                assert terminated or environment.turns_left == 0
            else:
                assert not terminated


@pytest.mark.parametrize("success_rate", [1.0, 0.98, 0.8, 1 / 3, 0.0])
def test_the_table_of_a_whole_map_is_gymnasiums(success_rate):
    """Open-ice moves plus what lies on the next cell give gymnasium's table of the real map, for every live cell."""
    moves = slips(4, success_rate)
    for seed in range(20):
        rows = lake(FrozenLakeConfig(), "train", seed).rows
        letters = "".join(rows)
        theirs = FrozenLakeEnv(desc=list(rows), is_slippery=success_rate < 1, success_rate=success_rate).P
        for cell in range(16):
            if letters[cell] in "GH":
                continue
            for move, action in GYM_ACTIONS.items():
                ours = [(p, to, int(letters[to] == "G"), letters[to] in "GH") for p, to in moves[cell][move]]
                assert ours == theirs[cell][action]


def test_slips_happen_as_often_as_they_should():
    environment = make_environment("frozenlake", {"success_rate": 0.6, "frozen": 1.0})
    wanted = {4: 0.6, 1: 0.2, 9: 0.2}  # left from cell 5; up and down are slips
    seed = next(s for s in range(1000) if environment.reset(s) and environment.position == 5)
    assert environment.lake.goal != 5  # which may lie next to the start: where a move ends is all that counts here
    ends = Counter()
    for noise in range(4000):
        environment.reset(seed, noise)
        environment.step(answer("left"))
        ends[environment.position] += 1
    assert set(ends) == set(wanted)
    for cell, chance in wanted.items():
        assert abs(ends[cell] / 4000 - chance) < 0.03


def test_noise_is_part_of_what_determines_an_episode():
    environment = make_environment("frozenlake", {"success_rate": 0.5})

    def path(noise):
        observations = [environment.reset(7, noise)]
        done = False
        while not done:
            observation, _, done, _ = environment.step(environment.demonstrate(random.Random(0), "several_facts"))
            observations.append(observation)
        return observations

    assert path(3) == path(3)
    assert len({tuple(path(noise)) for noise in range(20)}) > 1
    assert len({path(noise)[0] for noise in range(20)}) == 1


def shortest(rows, start):
    """Moves to the goal by relaxation, independent of the search under test."""
    size, infinite = len(rows), 10**6
    far = {(r, c): 0 if rows[r][c] == "G" else infinite for r in range(size) for c in range(size)}
    for _ in range(size * size):
        for r, c in far:
            if rows[r][c] != "H":
                near = [far.get(cell, infinite) for cell in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1))]
                far[r, c] = min(far[r, c], 1 + min(near))
    return far[divmod(start, size)]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_every_map_can_be_solved_within_the_budget(split):
    config = FrozenLakeConfig()
    lengths = Counter()
    for seed in range(300):
        drawn = lake(config, split, seed)
        assert "".join(drawn.rows)[drawn.start] == "S" and "".join(drawn.rows)[drawn.goal] == "G"
        length = shortest(drawn.rows, drawn.start)
        assert length == drawn.distance[drawn.start] <= config.max_solution < config.budget
        lengths[length] += 1
    assert len(lengths) > 4


def test_maps_have_holes():
    holes = Counter("".join(lake(FrozenLakeConfig(), "train", seed).rows).count("H") for seed in range(500))
    mean = sum(count * times for count, times in holes.items()) / 500
    assert 0.9 < mean < 1.6  # a tenth of fourteen cells, fewer where the goal is cut off


def test_falling_into_a_hole_ends_the_episode():
    environment = make_environment("frozenlake", {"success_rate": 1.0})
    for seed in range(200):
        environment.reset(seed)
        for move in MOVES:
            _, to = slips(4, 1.0)[environment.position][move][0]
            if "".join(environment.lake.rows)[to] == "H":
                observation, reward, done, info = environment.step(answer(move, move))
                assert done and reward == 0 and not info["success"] and info["actions"] == 1
                assert " X " in observation
                return
    raise AssertionError("no start next to a hole")


def test_surplus_moves_are_cut_and_wrong_ones_cost():
    environment = make_environment("frozenlake", {"success_rate": 1.0})
    environment.reset(1)  # player at (1, 1), goal at (3, 0)
    _, reward, _, info = environment.step(answer("up", "down", "jump"))
    assert (reward, info["format_valid"], info["actions"]) == (0.0, True, 2)
    _, reward, _, info = environment.step(answer("jump", "UP"))
    assert (reward, info["format_valid"], info["actions"]) == (-0.1, False, 1)


def test_the_observation_shows_player_goal_and_what_is_left():
    environment = make_environment("frozenlake", {"success_rate": 1.0})
    words = environment.reset(1).split()
    cells, (row, column, down, right, left) = words[1:17], map(int, words[17:22])
    assert cells.index("P") == 4 * row + column and cells.index("G") == 4 * down + right and left == 10


def test_options_that_cannot_work():
    with pytest.raises(BadEnvironment, match="max_solution"):
        make_environment("frozenlake", {"turns": 3})
    with pytest.raises(BadEnvironment, match="success_rate"):
        make_environment("frozenlake", {"success_rate": 1.5})
    impossible = make_environment("frozenlake", {"size": 2, "min_solution": 9, "max_solution": 9})
    with pytest.raises(BadEnvironment, match="no frozenlake instance"):
        impossible.reset(0)


def test_other_sizes():
    environment = make_environment("frozenlake", {"size": 6, "success_rate": 1.0, "turns": 8, "max_solution": 12})
    assert len(environment.reset(0).split()) == 1 + 36 + 5 + 1
