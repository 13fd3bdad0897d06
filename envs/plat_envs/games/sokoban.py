"""Sokoban: push every box onto a target. Boxes cannot be pulled, so a bad push may make the puzzle unsolvable.

A search over all pulls from the solved board gives every position with its exact number of moves; one within the budget
is drawn. Rewards: +1 for a box onto a target, -1 off it, +10 when all are placed, and `step_cost` less per action.
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
    DELTAS,
    State,
    backward_distances,
    distance,
    join_moves,
    moved,
    random_moves,
    read_moves,
    said_moves,
    shortest_solution,
    steps,
)
from plat_envs.instances import Candidate, draw
from plat_envs.stand_in import GRID_TEMPLATES, PUSH_TEMPLATES, sentence

_TRIES = 8  # positions tried of one layout before a new one is searched


@dataclass(frozen=True)
class SokobanConfig(BoardConfig):
    size: int = 6  # side of the square board, outer wall included [cells]
    boxes: int = 1  # to be pushed onto targets [boxes]
    walls: float = 0.1  # probability that an inner cell is a wall
    min_solution: int = 2  # of the shortest solution, drawn uniformly between both [moves]
    max_solution: int = 8  # of the shortest solution, at most [moves]
    step_cost: float = 0.1  # that each action costs [reward]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("size", self.size, 5, 10)
        check_range("boxes", self.boxes, 1, 3)
        check_range("walls", self.walls, 0.0, 0.5)
        check_range("step_cost", self.step_cost, 0.0, 10.0)
        self._check_solution(self.min_solution, self.max_solution)


@dataclass(frozen=True)
class Puzzle:
    """A layout and a start position. Cells are numbered row by row."""

    walls: frozenset[int]
    targets: tuple[int, ...]
    start: State


def _layout(config: SokobanConfig, rng: random.Random) -> tuple[frozenset[int], tuple[int, ...]] | None:
    size = config.size
    inner = [row * size + column for row in range(1, size - 1) for column in range(1, size - 1)]
    floor = [cell for cell in inner if rng.random() >= config.walls]
    if len(floor) < 2 * config.boxes + 1:
        return None
    targets = tuple(sorted(rng.sample(floor, config.boxes)))
    return frozenset(range(size * size)) - frozenset(floor), targets


@lru_cache(maxsize=4096)
def puzzle(config: SokobanConfig, split: str, seed: int) -> Puzzle:
    """Return the puzzle of (split, seed). Raises BadEnvironment if 100,000 draws give none."""

    def candidates(rng: random.Random) -> Iterator[Candidate[Puzzle]]:
        while True:
            layout = _layout(config, rng)
            if layout is None:
                yield None
                continue
            walls, targets = layout
            ground = f"{sorted(walls)} {targets}"
            distance = backward_distances(config.size, walls, targets)
            by_length: dict[int, list[State]] = {}
            for state, moves in distance.items():
                by_length.setdefault(moves, []).append(state)
            lengths = [n for n in range(config.min_solution, config.max_solution + 1) if n in by_length]
            if not lengths:
                yield None
                continue
            for _ in range(_TRIES):
                start = rng.choice(by_length[rng.choice(lengths)])
                yield ground, partial(Puzzle, walls, targets, start)

    return draw("sokoban", split, seed, config.shared_pool, candidates)


_GAME = (
    "You are solving the Sokoban puzzle. Push every box onto a target. You cannot pull a box, and a box cannot be "
    "pushed into a wall or another box."
)
_SYMBOLS = "The symbols are: # wall, _ empty, O target, √ box on target, X box, P player, S player on target."
_TILES = (
    "The picture shows a wall as bricks, an empty cell as plain ground, a target as a ring with a dot, a box as a "
    "crate with a cross, a box on a target as a crate with a dot, the player as a figure, and the player on a target "
    "as a figure in a ring."
)
_ACTIONS = (
    "Coordinates are (row, column), counted from the top left corner (0, 0).\nYour actions are: Up, Down, Left, Right."
)


class Sokoban(BoardEpisode):
    task = "sokoban"
    rules = f"{_GAME}\n{_SYMBOLS} {_ACTIONS}"
    picture_rules = f"{_GAME}\n{_TILES} {_ACTIONS}"
    vagen_px = 16
    config: SokobanConfig

    def __init__(self, config: SokobanConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        self._steps = steps(config.size)
        self._words = [f"{cell // config.size} {cell % config.size}" for cell in range(config.size**2)]
        self._inner = [
            row * config.size + column for row in range(1, config.size - 1) for column in range(1, config.size - 1)
        ]
        moves = f"D{{1,{config.actions_per_turn}}}"
        self._one_fact = sentence(f"box N N so {moves}")
        self._push, self._stuck = sentence(f"box N N push D from N N so {moves}"), sentence(f"box N N stuck so {moves}")
        self.templates = GRID_TEMPLATES + PUSH_TEMPLATES

    def _load(self, seed: int, noise: int) -> None:
        self.puzzle = puzzle(self._drawn, self.split, seed)
        self.player, self.boxes = self.puzzle.start
        self._empty_board = ["#" if cell in self.puzzle.walls else "_" for cell in range(self.config.size**2)]
        for target in self.puzzle.targets:
            self._empty_board[target] = "O"

    @property
    def problem(self) -> str:
        return f"{sorted(self.puzzle.walls)} {self.puzzle.targets} {self.puzzle.start}"

    def _read(self, answer: str) -> tuple[list[str], bool]:
        return read_moves(answer, self.config.actions_per_turn)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        before = self.player, self.boxes
        after = moved(before, self._steps[action], self.puzzle.walls)
        reward = -self.config.step_cost
        if after[1] is not before[1]:
            targets = self.puzzle.targets
            reward += sum(box in targets for box in after[1]) - sum(box in targets for box in before[1])
            self.success = after[1] == targets
            if self.success:
                reward += 10.0
        self.player, self.boxes = after
        return reward, after != before, self.success

    # --- renderings ---------------------------------------------------------------------------------------------------

    def _marked(self) -> list[str]:
        cells = self._empty_board.copy()
        for box in self.boxes:
            cells[box] = "√" if cells[box] == "O" else "X"
        cells[self.player] = "S" if cells[self.player] == "O" else "P"
        return cells

    def _compact(self) -> str:
        """Return the inner cells (the outer wall is implied), then player, boxes and targets as coordinates."""
        cells, words = self._marked(), self._words
        coordinates = " ".join(words[cell] for cell in (self.player, *self.boxes, *self.puzzle.targets))
        return f"sokoban {' '.join([cells[cell] for cell in self._inner])} {coordinates} {self._budget()} <think>"

    def _chat(self) -> str:
        size, cells = self.config.size, self._marked()
        grid = "\n".join("".join(cells[i : i + size]) for i in range(0, size * size, size))

        def places(cells: tuple[int, ...]) -> str:
            return ", ".join(str(divmod(cell, size)) for cell in cells)

        player, boxes, targets = places((self.player,)), places(self.boxes), places(self.puzzle.targets)
        return f"Coordinates: player {player}, boxes {boxes}, targets {targets}.\nGrid:\n{grid}"

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def plan(self) -> list[tuple[str, State]]:
        """Return a shortest solution from the current position, see `shortest_solution`."""
        position = self.player, self.boxes
        return shortest_solution(self.config.size, self.puzzle.walls, self.puzzle.targets, position)

    def _good_answer(self, rng: random.Random) -> str:
        plan = self.plan()
        if not plan:
            return self._random_answer(rng)
        return join_moves([move for move, _ in plan[: self.config.actions_per_turn]])

    def _random_answer(self, rng: random.Random) -> str:
        return random_moves(rng, self.config.actions_per_turn)

    def _next_push(self) -> tuple[int, str, int] | None:
        """Return box, direction and player's cell of the next push of a shortest solution; None without a solution."""
        for move, (player, boxes) in self.plan():
            if player + self._steps[move] in boxes:
                return player + self._steps[move], move, player
        return None

    def _facts(self, answer: str, several: bool) -> str:
        push, words, so = self._next_push(), self._words, f"so {said_moves(answer)}"
        if push is None:
            return f"box {words[self.boxes[0]]}{' stuck' if several else ''} {so}"
        box, move, player = push
        return f"box {words[box]} push {move} from {words[player]} {so}" if several else f"box {words[box]} {so}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        box = rng.choice([cell for cell in self._inner if cell not in self.boxes])
        move, answer = rng.choice(list(DELTAS)), self._random_answer(rng)
        player = self._words[box - self._steps[move]]
        return f"box {self._words[box]} push {move} from {player} so {said_moves(answer)}", answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        if match := self._one_fact.fullmatch(reasoning):
            return [self._cell(*match.group(1, 2)) in self.boxes]
        if match := self._stuck.fullmatch(reasoning):
            return [self._cell(*match.group(1, 2)) in self.boxes, not self.plan()]
        if match := self._push.fullmatch(reasoning):
            box, player = self._cell(*match.group(1, 2)), self._cell(*match.group(4, 5))
            can_push = player + self._steps[match.group(3)] == box
            return [box in self.boxes, can_push and player not in self.puzzle.walls and player not in self.boxes]
        return []

    def _cell(self, row: str, column: str) -> int:
        """Return the number of a cell in a sentence; -1 outside the board."""
        size = self.config.size
        return int(row) * size + int(column) if int(row) < size and int(column) < size else -1

    def blind(self) -> str:
        return push_through_walls(self)

    def greedy(self) -> str:
        return push_nearer(self)


SPEC = EnvironmentSpec(
    name="sokoban",
    config_type=SokobanConfig,
    make=Sokoban,
    version="2",
    plenty=512,
    renderings=RENDERINGS + PICTURE_RENDERINGS,
    legacy=BEFORE_PICTURES,
)


# Scripted policies of Sokoban.


def push_through_walls(environment: Sokoban) -> str:
    """Return the next moves of a shortest solution as if the outer wall were the only one."""
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
    """Return moves, each the one that brings boxes nearest to targets, then the player to a box.

    Distances are rows plus columns. A box counts to its nearest target, and the player to the nearest box that is on
    none. Of equally good moves the first in the order up, down, left, right; moves into a wall are left out.
    """
    size, targets, walls = environment.config.size, environment.puzzle.targets, environment.puzzle.walls

    def cost(state: State) -> tuple[int, int]:
        player, boxes = state
        left = [box for box in boxes if box not in targets]
        to_target = sum(min(distance(size, box, target) for target in targets) for box in left)
        return to_target, min((distance(size, player, box) for box in left), default=0)

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
