"""FrozenLake: cross the ice to the goal without falling into a hole; the lake may slip a move sideways.

The dynamics are gymnasium's FrozenLake-v1 (its transition table, with `desc` and `success_rate`). Maps are random, as
in the paper: each cell is frozen with probability .9, start and goal lie anywhere, and the goal can be reached. The
reward is 1 at the goal, else 0.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from plat_envs.api import EnvironmentSpec
from plat_envs.episode import Episode, EpisodeConfig
from plat_envs.errors import EnvironmentError_, check_range
from plat_envs.grid import DELTAS, join_moves, random_moves, read_moves
from plat_envs.instances import draw
from plat_envs.templates import GRID_TEMPLATES, sentence

GYM_ACTIONS = {"left": 0, "down": 1, "right": 2, "up": 3}
_SYMBOLS = {"S": "_", "F": "_", "H": "O", "G": "G"}


@dataclass(frozen=True)
class FrozenLakeConfig(EpisodeConfig):
    size: int = 4
    frozen: float = 0.9  # probability that a cell is frozen
    success_rate: float = 0.98  # of the intended move; the rest slips to both sides. Released main table: 1.0
    min_solution: int = 1  # moves of the shortest path
    max_solution: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("size", self.size, 2, 10)
        check_range("frozen", self.frozen, 0.3, 1.0)
        check_range("success_rate", self.success_rate, 0.0, 1.0)
        if not 1 <= self.min_solution <= self.max_solution:
            raise EnvironmentError_("min_solution is not from 1 to max_solution")


@dataclass(frozen=True)
class Lake:
    """One map: rows of S F H G (as gymnasium's `desc`), start and goal as cell numbers, moves to goal (-1: none)."""

    rows: tuple[str, ...]
    start: int
    goal: int
    distance: tuple[int, ...]


def distances(rows: tuple[str, ...], goal: int) -> tuple[int, ...]:
    """Moves from every cell to the goal around the holes, -1 where there is no way."""
    size = len(rows)
    found = [-1] * (size * size)
    found[goal] = 0
    frontier = [goal]
    for cell in frontier:
        row, column = divmod(cell, size)
        for down, right in DELTAS.values():
            r, c = row + down, column + right
            if 0 <= r < size and 0 <= c < size and rows[r][c] != "H" and found[r * size + c] < 0:
                found[r * size + c] = found[cell] + 1
                frontier.append(r * size + c)
    return tuple(found)


@lru_cache(maxsize=4096)
def lake(config: FrozenLakeConfig, split: str, seed: int) -> Lake:
    """The map of (split, seed)."""

    def candidates(rng: random.Random) -> Iterator[tuple[Lake, str] | None]:
        size = config.size
        while True:
            cells = ["F" if rng.random() < config.frozen else "H" for _ in range(size * size)]
            start, goal = rng.sample(range(size * size), 2)
            cells[start], cells[goal] = "S", "G"
            rows = tuple("".join(cells[i : i + size]) for i in range(0, size * size, size))
            distance = distances(rows, goal)
            solvable = config.min_solution <= distance[start] <= config.max_solution
            yield (Lake(rows, start, goal, distance), "/".join(rows)) if solvable else None

    return draw("frozenlake", split, seed, config.shared_pool, candidates)


@lru_cache(maxsize=4096)
def transitions(rows: tuple[str, ...], success_rate: float) -> dict[int, dict[int, list[tuple]]]:
    """gymnasium's table: state -> action -> [(probability, next state, reward, over)]."""
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    slippery = success_rate < 1.0
    return FrozenLakeEnv(desc=list(rows), is_slippery=slippery, success_rate=success_rate).P


class FrozenLake(Episode):
    task = "frozenlake"
    rules = (
        "You are solving the FrozenLake puzzle. Walk on the frozen cells to the goal and do not fall into a hole. "
        "The ice may slip you sideways.\n"
        "The symbols are: P player, _ frozen, O hole, G goal, X player in a hole, √ player on the goal. "
        "Coordinates are (row, column), counted from the top left corner (0, 0).\n"
        "Your actions are: Left, Down, Right, Up."
    )
    config: FrozenLakeConfig

    def __init__(self, config: FrozenLakeConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        self._rule = sentence(f"at N N goal N N so D{{1,{config.actions_per_turn}}}")

    def _load(self, seed: int, noise: int) -> None:
        self.lake = lake(self.config, self.split, seed)
        self._table = transitions(self.lake.rows, self.config.success_rate)
        self.position = self.lake.start
        self._cells = [_SYMBOLS[letter] for row in self.lake.rows for letter in row]
        self._chance: random.Random | None = None
        if self.config.success_rate < 1.0:
            self._chance = random.Random(f"slip/{self.split}/{seed}/{noise}")

    def _read(self, answer: str) -> tuple[list[str], bool]:
        return read_moves(answer, self.config.actions_per_turn)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        outcomes = self._table[self.position][GYM_ACTIONS[action]]
        chosen = outcomes[0]
        if self._chance is not None:
            luck = self._chance.random()
            for chosen in outcomes:
                luck -= chosen[0]
                if luck < 0:
                    break
        _, position, reward, over = chosen
        changed = position != self.position
        self.position = position
        self.success = position == self.lake.goal
        return float(reward), changed, over

    # --- renderings ---------------------------------------------------------------------------------------------------

    def _marked(self) -> list[str]:
        cells = self._cells.copy()
        cells[self.position] = {"_": "P", "O": "X", "G": "√"}[cells[self.position]]
        return cells

    def _compact(self) -> str:
        size = self.config.size
        (row, column), (down, right) = divmod(self.position, size), divmod(self.lake.goal, size)
        return f"frozenlake {' '.join(self._marked())} {row} {column} {down} {right} {self._budget()} <think>"

    def _chat(self) -> str:
        size, cells = self.config.size, self._marked()
        grid = "\n".join("".join(cells[i : i + size]) for i in range(0, size * size, size))
        holes = ", ".join(str(divmod(i, size)) for i, cell in enumerate(self._cells) if cell == "O") or "none"
        player, goal = divmod(self.position, size), divmod(self.lake.goal, size)
        return f"Coordinates: player {player}, goal {goal}, holes {holes}.\nGrid:\n{grid}"

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def plan(self, most: int) -> list[str]:
        """The next moves of a shortest path, at most `most`; vertical ones first where there is a choice."""
        size, distance = self.config.size, self.lake.distance
        row, column = divmod(self.position, size)
        moves: list[str] = []
        while len(moves) < most and distance[row * size + column] > 0:
            for move, (down, right) in DELTAS.items():
                r, c = row + down, column + right
                if 0 <= r < size and 0 <= c < size and distance[r * size + c] == distance[row * size + column] - 1:
                    moves.append(move)
                    row, column = r, c
                    break
        return moves

    def _grounded(self, rng: random.Random) -> tuple[str, str]:
        size = self.config.size
        moves = self.plan(self.config.actions_per_turn) or ["up"]  # no way on: the episode is over
        (row, column), (down, right) = divmod(self.position, size), divmod(self.lake.goal, size)
        return f"at {row} {column} goal {down} {right} so {' '.join(moves)}", join_moves(moves)

    def _template(self, rng: random.Random) -> tuple[str, str]:
        return rng.choice(GRID_TEMPLATES), random_moves(rng, self.config.actions_per_turn)

    def reasoning_kind(self, reasoning: str) -> str | None:
        if reasoning in GRID_TEMPLATES:
            return "template"
        return "grounded" if self._rule.fullmatch(reasoning) else None


def _make(config: Any, split: str, rendering: str) -> FrozenLake:
    return FrozenLake(config, split, rendering)


SPEC = EnvironmentSpec(
    name="frozenlake",
    config_type=FrozenLakeConfig,
    make=_make,
    version="1",
    stochastic=True,
    multi_turn=True,
    state="grid",
    reward="binary",
)
