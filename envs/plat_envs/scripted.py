"""Scripted policies, which show what a task yields without learning.

    random    a random valid answer
    blind     a sensible answer that ignores what makes the task hard
    greedy    one step of look-ahead
    optimal   the good answer of the demonstrations: a shortest way (slips ignored), or the right answer

If `blind` succeeds as often as a learned policy, success is no sign of attention to the problem. `blind` and `greedy`
read the game behind the text, so every task has its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from plat_envs.countdown import Countdown, signed_sum
from plat_envs.environment_errors import BadEnvironment
from plat_envs.episode import Episode
from plat_envs.frozenlake import FrozenLake, neighbours, straight_way
from plat_envs.grid import join_moves
from plat_envs.metamathqa import MetaMathQA
from plat_envs.shop.scripted import take_the_first, take_the_first_affordable
from plat_envs.sokoban import Sokoban, State, moved, shortest_solution, steps

POLICIES = ("random", "blind", "greedy", "optimal")


def response(environment: Episode, policy: str, rng: random.Random) -> str:
    """Return the response of a policy (one of POLICIES) in the current state.

    `blind` and `greedy` answer at random if they have no action. They raise BadEnvironment for a task not in `BLIND`,
    and `greedy` for real MetaMathQA problems.
    """
    if policy in ("blind", "greedy"):
        by_task = BLIND if policy == "blind" else GREEDY
        if environment.task not in by_task:
            raise BadEnvironment(f"no {policy} policy is written for {environment.task}", where="plat_envs/scripted.py")
        answer = by_task[environment.task](environment)
        if answer:
            return f"{environment.templates[0]} </think> <answer> {answer} </answer>"
    return environment.demonstrate(rng, "template", good=policy == "optimal")


# --- FrozenLake -------------------------------------------------------------------------------------------------------


def walk_straight(environment: FrozenLake) -> str:
    """FrozenLake, blind: return the next moves straight to the goal, vertical ones first, as if there were no holes."""
    size, cell = environment.config.size, environment.position
    moves = []
    for to in straight_way(size, cell, environment.lake.goal)[: environment.config.actions_per_turn]:
        moves += [move for move, near in neighbours(size)[cell].items() if near == to]
        cell = to
    return join_moves(moves)


def step_nearer(environment: FrozenLake) -> str:
    """FrozenLake, greedy: return moves, each to the neighbouring cell without a hole that is nearest to the goal.

    Distances are rows plus columns. Of equally near cells the first in the order up, down, left, right.
    """
    size, goal, cell = environment.config.size, environment.lake.goal, environment.position
    cells = "".join(environment.lake.rows)
    moves: list[str] = []
    while len(moves) < environment.config.actions_per_turn and cell != goal:
        safe = {move: near for move, near in neighbours(size)[cell].items() if cells[near] != "H"}
        if not safe:
            break
        moves.append(min(safe, key=lambda move: _apart(size, safe[move], goal)))
        cell = safe[moves[-1]]
    return join_moves(moves)


def _apart(size: int, cell: int, other: int) -> int:
    """Return rows plus columns between two cells."""
    (row, column), (down, right) = divmod(cell, size), divmod(other, size)
    return abs(row - down) + abs(column - right)


# --- Sokoban ----------------------------------------------------------------------------------------------------------


def push_through_walls(environment: Sokoban) -> str:
    """Sokoban, blind: return the next moves of a shortest solution as if the outer wall were the only one."""
    size = environment.config.size
    outer = frozenset(
        row * size + column
        for row in range(size)
        for column in range(size)
        if row in (0, size - 1) or column in (0, size - 1)
    )
    plan = shortest_solution(size, outer, environment.puzzle.targets, (environment.player, environment.boxes))
    moves = [move for move, _ in plan[: environment.config.actions_per_turn]]
    return join_moves(moves)


def push_nearer(environment: Sokoban) -> str:
    """Sokoban, greedy: return moves, each the one that brings boxes nearest to targets, then the player to a box.

    Distances are rows plus columns. A box counts to its nearest target, and the player to the nearest box that is on
    none. Of equally good moves the first in the order up, down, left, right; moves into a wall are left out.
    """
    size, targets, walls = environment.config.size, environment.puzzle.targets, environment.puzzle.walls

    def cost(state: State) -> tuple[int, int]:
        player, boxes = state
        left = [box for box in boxes if box not in targets]
        to_target = sum(min(_apart(size, box, target) for target in targets) for box in left)
        return to_target, min((_apart(size, player, box) for box in left), default=0)

    state: State = (environment.player, environment.boxes)
    moves: list[str] = []
    while len(moves) < environment.config.actions_per_turn and state[1] != targets:
        after = {move: moved(state, step, walls) for move, step in steps(size).items()}
        after = {move: position for move, position in after.items() if position != state}
        if not after:
            break
        moves.append(min(after, key=lambda move: cost(after[move])))
        state = after[moves[-1]]
    return join_moves(moves)


# --- Countdown and MetaMathQA -----------------------------------------------------------------------------------------


def add_all(environment: Countdown) -> str:
    """Countdown, blind: return the expression that adds all numbers, whatever the target."""
    return signed_sum(list(environment.numbers), [])


def add_or_subtract(environment: Countdown) -> str:
    """Countdown, greedy: return the largest number with each other one added or subtracted, from large to small.

    Whichever leads nearer to the target is chosen; a number is added if both are equally near.
    """
    first, *others = sorted(environment.numbers, reverse=True)
    total, added, taken = first, [first], []
    for number in others:
        if abs(total + number - environment.target) <= abs(total - number - environment.target):
            total += number
            added.append(number)
        else:
            total -= number
            taken.append(number)
    return signed_sum(added, taken)


def add_every_number(environment: MetaMathQA) -> str:
    """MetaMathQA, blind: return the sum of all numbers in the question, whatever it says of them, e.g. "9"."""
    return str(sum(int(word) for word in environment.row.question.split() if word.isdigit()))


def first_step(environment: MetaMathQA) -> str:
    """MetaMathQA, greedy: return the result of the solution's first step. Raises BadEnvironment for real data."""
    if environment.config.data != "generated":
        raise BadEnvironment("real problems have no steps to look ahead to", fix="data=generated")
    return environment.row.solution.split()[4]  # e.g. 3 * 4 = 12 + 3 = 15


BLIND: dict[str, Callable[[Any], str]] = {
    "sokoban": push_through_walls,
    "frozenlake": walk_straight,
    "metamathqa": add_every_number,
    "countdown": add_all,
    "webshop": take_the_first,
}
GREEDY: dict[str, Callable[[Any], str]] = {
    "sokoban": push_nearer,
    "frozenlake": step_nearer,
    "metamathqa": first_step,
    "countdown": add_or_subtract,
    "webshop": take_the_first_affordable,
}
