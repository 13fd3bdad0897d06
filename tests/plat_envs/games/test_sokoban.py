"""Sokoban: solvable by an independent forward search, with the rewards and rules of the game."""

from __future__ import annotations

import random
from collections import Counter, deque

import pytest

from plat_envs.api import make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.games.sokoban import Puzzle, SokobanConfig, puzzle
from plat_envs.games.ways import backward_distances

STEPS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}


def answer(*moves):
    return f"x </think> <answer> {' || '.join(moves)} </answer>"


def forward_length(walls, targets, player, boxes, size):
    """Moves of the shortest solution, by plain forward search on (row, column) pairs; None where there is none."""
    walls = {divmod(cell, size) for cell in walls}
    targets = frozenset(divmod(cell, size) for cell in targets)
    start = divmod(player, size), frozenset(divmod(cell, size) for cell in boxes)
    far, queue = {start: 0}, deque([start])
    while queue:
        state = queue.popleft()
        (row, column), placed = state
        if placed == targets:
            return far[state]
        for down, right in STEPS.values():
            to, beyond = (row + down, column + right), (row + 2 * down, column + 2 * right)
            if to in walls or (to in placed and (beyond in walls or beyond in placed)):
                continue
            after = to, (placed - {to} | {beyond} if to in placed else placed)
            if after not in far:
                far[after] = far[state] + 1
                queue.append(after)
    return None


@pytest.mark.parametrize("split", ["train", "validation", "heldout"])
def test_every_puzzle_has_a_solution_within_the_budget(split):
    config = SokobanConfig()
    lengths = Counter()
    for seed in range(150):
        drawn = puzzle(config, split, seed)
        length = forward_length(drawn.walls, drawn.targets, *drawn.start, config.size)
        assert length == backward_distances(config.size, drawn.walls, drawn.targets)[drawn.start]
        assert config.min_solution <= length <= config.max_solution < config.budget
        lengths[length] += 1
    assert set(lengths) == set(range(2, 9))  # easy and hard ones


def test_backward_search_finds_exactly_the_solvable_positions():
    for seed in range(5):
        drawn = puzzle(SokobanConfig(), "train", seed)
        distance = backward_distances(6, drawn.walls, drawn.targets)
        floor = [cell for cell in range(36) if cell not in drawn.walls]
        for player in floor:
            for box in floor:
                if box != player:
                    expected = forward_length(drawn.walls, drawn.targets, player, (box,), 6)
                    assert distance.get((player, (box,))) == expected


def test_two_boxes_are_solved_too():
    options = {"boxes": 2, "size": 7, "walls": 0.0, "turns": 12, "max_solution": 20, "min_solution": 6}
    environment = make_environment("sokoban", options)
    for seed in range(3):
        environment.reset(seed)
        drawn = environment.puzzle
        assert 6 <= forward_length(drawn.walls, drawn.targets, *drawn.start, 7) <= 20
        done = False
        while not done:
            _, _, done, info = environment.step(environment.demonstrate(random.Random(0), "several_facts"))
        assert info["success"]


@pytest.fixture
def scripted():
    """A board of 6 x 6 without inner walls, with a chosen start."""

    def board(player, boxes, targets):
        inner = {6 * row + column for row in range(1, 5) for column in range(1, 5)}
        environment = make_environment("sokoban", {"boxes": len(boxes), "turns": 8})
        cells = [tuple(6 * r + c for r, c in places) for places in ([player], boxes, targets)]
        start = cells[0][0], tuple(sorted(cells[1]))
        environment.reset(0)
        environment.puzzle = Puzzle(frozenset(range(36)) - inner, tuple(sorted(cells[2])), start)
        environment.player, environment.boxes = start
        environment._empty_board = ["_" if cell in inner else "#" for cell in range(36)]
        for target in cells[2]:
            environment._empty_board[target] = "O"
        return environment

    return board


def test_rewards_of_a_solution(scripted):
    environment = scripted((1, 1), [(1, 2)], [(1, 4)])
    observation, reward, done, info = environment.step(answer("right", "right"))
    assert reward == pytest.approx(-0.1 + (-0.1 + 1 + 10)) and done and info["success"] and info["moves"] == 2
    assert observation.split()[1:17] == ["_", "_", "P", "√"] + ["_"] * 12


def test_rewards_on_and_off_a_target(scripted):
    environment = scripted((1, 1), [(1, 2), (3, 3)], [(1, 3), (4, 4)])
    _, reward, done, _ = environment.step(answer("right"))
    assert reward == pytest.approx(0.9) and not done
    _, reward, done, _ = environment.step(answer("right"))
    assert reward == pytest.approx(-1.1) and not done


def test_what_is_in_the_way_stops_a_move_but_costs_a_step(scripted):
    environment = scripted((1, 1), [(1, 2), (1, 3)], [(4, 4), (4, 3)])
    _, reward, _, info = environment.step(answer("up", "right"))  # a wall, then two boxes in a row
    assert reward == pytest.approx(-0.2) and info["actions"] == 2 and info["moves"] == 0


def test_a_box_in_a_corner_is_stuck(scripted):
    environment = scripted((2, 1), [(1, 2)], [(3, 3)])
    environment.boxes = (7,)  # the corner (1, 1)
    response = environment.demonstrate(random.Random(0), "several_facts")
    assert response.startswith("box 1 1 stuck so ")
    assert environment.reasoning_level(response.split(" </think>")[0]) == "several_facts"


def test_grounded_reasoning_is_true_of_the_board():
    environment = make_environment("sokoban")
    for seed in range(100):
        words = environment.reset(seed).split()
        said = environment.demonstrate(random.Random(0), "several_facts").split()
        assert said[1:3] == words[19:21]  # the box
        push, (box, stand) = said[4], (tuple(map(int, said[1:3])), tuple(map(int, said[6:8])))
        assert (stand[0] + STEPS[push][0], stand[1] + STEPS[push][1]) == box


def test_coordinates_agree_with_the_cells():
    environment = make_environment("sokoban")
    for seed in range(100):
        words = environment.reset(seed).split()
        cells, (player_row, player_column, box_row, box_column, row, column, left) = words[1:17], map(int, words[17:24])
        assert cells[4 * (player_row - 1) + player_column - 1] in "PS"
        assert cells[4 * (box_row - 1) + box_column - 1] == "X"
        assert cells[4 * (row - 1) + column - 1] in "OS" and left == 10


def test_options_that_cannot_work():
    with pytest.raises(BadEnvironment, match="max_solution"):
        make_environment("sokoban", {"turns": 2})
    with pytest.raises(BadEnvironment, match="boxes"):
        make_environment("sokoban", {"boxes": 0})
