"""FrozenLake: cross the ice to the goal without falling into a hole; a move may slip sideways.

The dynamics are gymnasium's FrozenLake-v1 (its transition table with `success_rate`). Maps are random, as in the paper:
each cell is frozen with probability .9, start and goal lie anywhere, and the goal can be reached. The reward is 1 at
the goal, otherwise 0, less `step_cost` per action.

On such maps a policy that ignores holes does well (docs/tasks.md). `detours` is the share of maps on which a hole
blocks both straight ways to the goal, vertical first and horizontal first.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial

from plat_envs.api import PICTURE_RENDERINGS, RENDERINGS, EnvironmentSpec
from plat_envs.environment_errors import check_range
from plat_envs.games.boards import BEFORE_PICTURES, BoardConfig, BoardEpisode
from plat_envs.games.ways import (
    distance,
    distances,
    join_moves,
    neighbours,
    random_moves,
    read_moves,
    said_moves,
    straight_way,
)
from plat_envs.instances import Candidate, draw, split_of
from plat_envs.stand_in import GRID_TEMPLATES, sentence

GYM_ACTIONS = {"left": 0, "down": 1, "right": 2, "up": 3}
_FROM_GYM = {"S": "_", "F": "_", "H": "O", "G": "G"}


@dataclass(frozen=True)
class FrozenLakeConfig(BoardConfig):
    size: int = 4  # side of the square map [cells]
    frozen: float = 0.9  # probability that a cell is frozen
    success_rate: float = 0.98  # of the intended move; the rest slips to both sides. Released main table: 1.0
    min_solution: int = 1  # of the shortest path, at least [moves]
    max_solution: int = 8  # of the shortest path, at most [moves]
    detours: float = 0.0  # share of the maps on which both straight ways are blocked; else as they come
    step_cost: float = 0.0  # that each action costs [reward]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("size", self.size, 2, 10)
        check_range("frozen", self.frozen, 0.3, 1.0)
        check_range("success_rate", self.success_rate, 0.0, 1.0)
        check_range("detours", self.detours, 0.0, 1.0)
        check_range("step_cost", self.step_cost, 0.0, 10.0)
        self._check_solution(self.min_solution, self.max_solution)


@dataclass(frozen=True)
class Lake:
    """One map: rows of S F H G (as gymnasium's `desc`), start and goal as cell numbers, moves to goal (-1: none)."""

    rows: tuple[str, ...]
    start: int
    goal: int
    distance: tuple[int, ...]


def _usable(config: FrozenLakeConfig, rows: tuple[str, ...], start: int, goal: int, needs_detour: bool) -> Lake | None:
    if needs_detour:
        cells, ways = "".join(rows), [straight_way(len(rows), start, goal, first) for first in (True, False)]
        if not all(any(cells[cell] == "H" for cell in way) for way in ways):
            return None
    distance = distances(rows, goal)
    return Lake(rows, start, goal, distance) if config.min_solution <= distance[start] <= config.max_solution else None


@lru_cache(maxsize=4096)
def lake(config: FrozenLakeConfig, split: str, seed: int) -> Lake:
    """Return the map of (split, seed). Raises BadEnvironment if 100,000 draws give none."""

    def candidates(rng: random.Random) -> Iterator[Candidate[Lake]]:
        size = config.size
        needs_detour = config.detours > 0 and rng.random() < config.detours
        while True:
            cells = ["F" if rng.random() < config.frozen else "H" for _ in range(size * size)]
            start, goal = rng.sample(range(size * size), 2)
            cells[start], cells[goal] = "S", "G"
            rows = tuple("".join(cells[i : i + size]) for i in range(0, size * size, size))
            ground = "/".join(rows).replace("S", "F")
            yield ground, partial(_usable, config, rows, start, goal, needs_detour)

    return draw("frozenlake", split, seed, config.shared_pool, candidates, assign=split_of_map)


# Maps without a hole are few (one for each goal) and drawn often. A hash would assign them by chance and might make
# one split easier than another. These shares are near those of the splits, by the number of the goal's cell.
_HOLE_FREE = (
    *("base", "train", "validation", "base", "train", "base", "train", "heldout"),
    *("train", "base", "heldout", "train", "base", "train", "base", "validation"),
)


def split_of_map(ground: str) -> str:
    """Return the split of a map, given as its rows joined by `/`, with F at the start cell."""
    if "H" in ground:
        return split_of(ground)
    return _HOLE_FREE[ground.replace("/", "").index("G") % len(_HOLE_FREE)]


@lru_cache(maxsize=16)
def slips(size: int, success_rate: float) -> list[dict[str, list[tuple[float, int]]]]:
    """Return the outcomes of moves on open ice: for each cell, move -> [(probability, next cell)].

    One table from gymnasium serves all maps of a size, because reward and end depend only on the next cell. A table for
    each map would take half a millisecond. A test compares whole maps with those of gymnasium.
    """
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    open_ice = ["S" + "F" * (size - 1)] + ["F" * size] * (size - 1)
    table = FrozenLakeEnv(desc=open_ice, is_slippery=success_rate < 1.0, success_rate=success_rate).P
    return [
        {move: [(chance, int(to)) for chance, to, _, _ in table[cell][action]] for move, action in GYM_ACTIONS.items()}
        for cell in range(size * size)
    ]


_GAME = (
    "You are solving the FrozenLake puzzle. Walk on the frozen cells to the goal and do not fall into a hole. "
    "The ice may slip you sideways."
)
_SYMBOLS = "The symbols are: P player, _ frozen, O hole, G goal, X player in a hole, √ player on the goal."
_TILES = (
    "The picture shows the player as a figure, a frozen cell as scratched ice, a hole as a dark disc, the goal as a "
    "flag, the player in a hole as a figure with raised arms in a dark disc, and the player on the goal as a figure "
    "beside a flag."
)
_ACTIONS = (
    "Coordinates are (row, column), counted from the top left corner (0, 0).\nYour actions are: Left, Down, Right, Up."
)


class FrozenLake(BoardEpisode):
    task = "frozenlake"
    rules = f"{_GAME}\n{_SYMBOLS} {_ACTIONS}"
    picture_rules = f"{_GAME}\n{_TILES} {_ACTIONS}"
    vagen_px = 64
    config: FrozenLakeConfig

    def __init__(self, config: FrozenLakeConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        moves = f"D{{1,{config.actions_per_turn}}}"
        self._one_fact = sentence(f"goal N N so {moves}")
        self._with_hole = sentence(f"at N N goal N N hole N N so {moves}")
        self._without_hole = sentence(f"at N N goal N N no hole so {moves}")
        self.templates = GRID_TEMPLATES

    def _load(self, seed: int, noise: int) -> None:
        self.lake = lake(self._drawn, self.split, seed)
        self._slips = slips(self.config.size, self.config.success_rate)
        self.position = self.lake.start
        self._cells = [_FROM_GYM[letter] for row in self.lake.rows for letter in row]
        self._chance: random.Random | None = None
        if self.config.success_rate < 1.0:
            self._chance = random.Random(f"slip/{self.split}/{seed}/{noise}")

    @property
    def problem(self) -> str:
        return "/".join(self.lake.rows)

    def _read(self, answer: str) -> tuple[list[str], bool]:
        return read_moves(answer, self.config.actions_per_turn)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        outcomes = self._slips[self.position][action]
        position = outcomes[0][1]
        if self._chance is not None:
            luck = self._chance.random()
            for chance, to in outcomes:
                position = to
                luck -= chance
                if luck < 0:
                    break
        changed = position != self.position
        self.position = position
        self.success = position == self.lake.goal
        return self.success - self.config.step_cost, changed, self.success or self._cells[position] == "O"

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
        """Return at most `most` next moves of a shortest path to the goal, vertical ones first; [] without a path."""
        distance, around = self.lake.distance, neighbours(self.config.size)
        cell = self.position
        moves: list[str] = []
        while len(moves) < most and distance[cell] > 0:
            move = next(move for move, near in around[cell].items() if distance[near] == distance[cell] - 1)
            moves.append(move)
            cell = around[cell][move]
        return moves

    def _good_answer(self, rng: random.Random) -> str:
        return join_moves(self.plan(self.config.actions_per_turn)) or self._random_answer(rng)

    def _random_answer(self, rng: random.Random) -> str:
        return random_moves(rng, self.config.actions_per_turn)

    def _hole_on_the_way(self) -> int | None:
        """Return the first hole on the straight way, vertical first; None if it is free."""
        way = straight_way(self.config.size, self.position, self.lake.goal)
        return next((cell for cell in way if self._cells[cell] == "O"), None)

    def _place(self, cell: int) -> str:
        return "{} {}".format(*divmod(cell, self.config.size))

    def _facts(self, answer: str, several: bool) -> str:
        goal, so = f"goal {self._place(self.lake.goal)}", f"so {said_moves(answer)}"
        hole = self._hole_on_the_way()
        danger = "no hole" if hole is None else f"hole {self._place(hole)}"
        return f"at {self._place(self.position)} {goal} {danger} {so}" if several else f"{goal} {so}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        cells = range(self.config.size**2)
        goal = self._place(rng.choice([cell for cell in cells if cell != self.lake.goal]))
        danger = f"hole {self._place(rng.choice(cells))}" if rng.random() < 0.5 else "no hole"
        answer = self._random_answer(rng)
        return f"at {self._place(rng.choice(cells))} goal {goal} {danger} so {said_moves(answer)}", answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        goal = self._place(self.lake.goal)
        if match := self._one_fact.fullmatch(reasoning):
            return [" ".join(match.group(1, 2)) == goal]
        match = self._with_hole.fullmatch(reasoning) or self._without_hole.fullmatch(reasoning)
        if match is None:
            return []
        if match.re is self._with_hole:
            holes = [self._place(cell) for cell, symbol in enumerate(self._cells) if symbol == "O"]
            danger = " ".join(match.group(5, 6)) in holes
        else:
            danger = self._hole_on_the_way() is None
        return [
            " ".join(match.group(1, 2)) == self._place(self.position),
            " ".join(match.group(3, 4)) == goal,
            danger,
        ]

    def blind(self) -> str:
        return walk_straight(self)

    def greedy(self) -> str:
        return step_nearer(self)


SPEC = EnvironmentSpec(
    name="frozenlake",
    config_type=FrozenLakeConfig,
    make=FrozenLake,
    version="3",
    plenty=512,
    renderings=RENDERINGS + PICTURE_RENDERINGS,
    legacy=BEFORE_PICTURES,
)


# Scripted policies of FrozenLake.


def walk_straight(environment: FrozenLake) -> str:
    """Return the next moves straight to the goal, vertical ones first, as if there were no holes."""
    size, cell = environment.config.size, environment.position
    moves = []
    for to in straight_way(size, cell, environment.lake.goal)[: environment.config.actions_per_turn]:
        moves += [move for move, near in neighbours(size)[cell].items() if near == to]
        cell = to
    return join_moves(moves)


def step_nearer(environment: FrozenLake) -> str:
    """Return moves, each to the neighbouring cell without a hole that is nearest to the goal.

    Distances are rows plus columns. Of equally near cells the first in the order up, down, left, right.
    """
    size, goal, cell = environment.config.size, environment.lake.goal, environment.position
    cells = "".join(environment.lake.rows)
    moves: list[str] = []
    while len(moves) < environment.config.actions_per_turn and cell != goal:
        safe = {move: near for move, near in neighbours(size)[cell].items() if cells[near] != "H"}
        if not safe:
            break
        moves.append(min(safe, key=lambda move: distance(size, safe[move], goal)))
        cell = safe[moves[-1]]
    return join_moves(moves)
