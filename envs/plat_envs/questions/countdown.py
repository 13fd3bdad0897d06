"""Countdown: make the target from three or four numbers with arithmetic.

The reward is 1 for a right expression, .1 for the right numbers with a wrong value, else 0. Every problem can be
solved with all its numbers, once each, and + and - only (the released code keeps only such rows of the real data).

Real data (`data: file | hub`): rows with `nums` (a list of whole numbers; `numbers` is taken too) and `target`.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations
from typing import Any

from plat_envs.api import EnvironmentSpec
from plat_envs.data import check_source, fingerprint, is_here, of_split, problem_of_seed, rows_of
from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.instances import Candidate, ready
from plat_envs.questions.expression import evaluate
from plat_envs.stand_in import MAX_NUMBER, NUMBER_TEMPLATES, sentence
from plat_envs.turns.episode import Episode, EpisodeConfig

MOST_NUMBERS = 4
Problem = tuple[tuple[int, ...], int]  # numbers, target


@dataclass(frozen=True)
class CountdownConfig(EpisodeConfig):
    turns: int = 1  # attempts at a problem [turns]
    actions_per_turn: int = 1  # answers in an attempt [actions]
    numbers: str = "at_most_once"  # the paper's rule | all_exactly_once: the released code's
    data: str = "generated"  # where the problems come from: generated | file | hub
    path: str = ""  # of the file, where `data` is file
    dataset: str = "Jiayi-Pan/Countdown-Tasks-3to4"  # on the hub, where `data` is hub
    revision: str = ""  # of the dataset on the hub; empty: the newest
    max_rows: int = 20000  # of real data, before the unsolvable ones are dropped [rows]
    largest: int = 12  # generated numbers are 1..largest, targets 1..30
    four: float = 0.5  # share of generated problems with four numbers

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("numbers", self.numbers, ("at_most_once", "all_exactly_once"))
        check_source("countdown", self.data, self.path)
        check_range("largest", self.largest, 3, 20)
        check_range("four", self.four, 0.0, 1.0)
        check_range("max_rows", self.max_rows, 1, 10**9)


def subtracted(numbers: tuple[int, ...], target: int) -> tuple[int, ...] | None:
    """Return the positions of the numbers to subtract so that the signed sum is the target; None if there are none.

    At least one number is added. The answer is the shortest, and of equally short ones the lexicographically first.
    """
    twice = sum(numbers) - target
    if twice < 0 or twice % 2:
        return None
    for count in range(len(numbers)):
        for positions in combinations(range(len(numbers)), count):
            if 2 * sum(numbers[position] for position in positions) == twice:
                return positions
    return None


def signed_sum(numbers: list[int], minus: list[int]) -> str:
    """Return the expression that adds all of `numbers`, then subtracts all of `minus`."""
    return " + ".join(map(str, numbers)) + "".join(f" - {number}" for number in minus)


def _canonical(problem: Problem) -> str:
    return f"{sorted(problem[0])} {problem[1]}"


@lru_cache(maxsize=64)
def _pool(config: CountdownConfig, split: str) -> list[Problem]:
    """Return the solvable problems of real data in the split."""
    problems = []
    for row in rows_of(config.data, config.path, config.dataset, config.revision)[: config.max_rows]:
        try:
            numbers = row["nums"] if "nums" in row else row["numbers"]
            problem = tuple(int(number) for number in numbers), int(row["target"])
        except (KeyError, TypeError, ValueError):
            raise BadEnvironment(
                f"not a Countdown row: {str(row)[:80]}",
                where=config.path or config.dataset,
                fix="columns nums and target",
            ) from None
        if subtracted(*problem) is not None:
            problems.append(problem)
    return of_split("countdown", problems, _canonical, split, config.shared_pool)


@lru_cache(maxsize=4096)
def problem_of(config: CountdownConfig, split: str, seed: int) -> Problem:
    """Return the problem of (split, seed); see `problem_of_seed`."""

    def candidates(rng: random.Random) -> Iterator[Candidate[Problem]]:
        while True:
            numbers = tuple(rng.randint(1, config.largest) for _ in range(4 if rng.random() < config.four else 3))
            minus = rng.getrandbits(len(numbers))
            target = sum(-number if minus >> i & 1 else number for i, number in enumerate(numbers))
            problem = numbers, target
            fits = 1 <= target and sum(numbers) <= MAX_NUMBER and target not in numbers
            yield ready(_canonical(problem), problem) if fits else None

    return problem_of_seed("countdown", config, split, seed, _pool, candidates)


class Countdown(Episode):
    task = "countdown"
    config: CountdownConfig

    def __init__(self, config: CountdownConfig, split: str, rendering: str) -> None:
        usage = "all of them exactly once" if config.numbers == "all_exactly_once" else "each at most once"
        self.rules = (
            "You are solving the Countdown puzzle. Make an arithmetic expression that equals the target from the given "
            f"numbers, {usage}, with +, -, * and / and parentheses. The answer is the expression alone, without an "
            "equals sign, e.g. <answer> (1 + 2) * 3 </answer>."
        )
        super().__init__(config, split, rendering)
        if rendering == "compact" and config.data != "generated":
            self._check_words()
        large = rendering == "chat"
        self._one_fact = sentence("total N", large=large)
        self._several_facts = sentence("total N{1,9} minus N", large=large)
        self.templates = NUMBER_TEMPLATES

    def _check_words(self) -> None:
        for numbers, target in _pool(self.config, self.split):
            if len(numbers) > MOST_NUMBERS or sum(numbers) > MAX_NUMBER or min(*numbers, target) < 0:
                raise BadEnvironment(
                    f"countdown: {list(numbers)} -> {target} has no compact rendering",
                    fix=f"rendering: chat (compact text has words for up to {MOST_NUMBERS} numbers "
                    f"with a sum of at most {MAX_NUMBER})",
                )

    def _load(self, seed: int, noise: int) -> None:
        self.numbers, self.target = problem_of(self.config, self.split, seed)

    @property
    def problem(self) -> str:
        return _canonical((self.numbers, self.target))

    def _read(self, answer: str) -> tuple[list[Any], bool]:
        read = evaluate(answer)
        return ([], False) if read is None else ([read], True)

    def _play(self, action: Any) -> tuple[float, bool, bool]:
        value, used = action
        given = Counter(self.numbers)
        exactly = self.config.numbers == "all_exactly_once"
        right_numbers = Counter(used) == given if exactly else Counter(used) <= given
        self.success = right_numbers and value == self.target
        return (1.0 if self.success else 0.1 if right_numbers else 0.0), True, self.success

    def _compact(self) -> str:
        numbers = " ".join([*map(str, self.numbers), *["_"] * (MOST_NUMBERS - len(self.numbers))])
        budget = f" {self._budget()}" if self.config.turns > 1 else ""
        return f"countdown {numbers} = {self.target}{budget} <think>"

    def _chat(self) -> str:
        return f"Numbers: {list(self.numbers)}. Target: {self.target}."

    def _taken_away(self) -> list[int]:
        """The numbers that a right answer subtracts; it adds the others."""
        minus = subtracted(self.numbers, self.target)
        assert minus is not None  # every problem is made or chosen so
        return [self.numbers[position] for position in minus]

    def _good_answer(self, rng: random.Random) -> str:
        minus = subtracted(self.numbers, self.target) or ()
        added = [number for position, number in enumerate(self.numbers) if position not in minus]
        return signed_sum(added, self._taken_away())

    def _random_answer(self, rng: random.Random) -> str:
        order = rng.sample(self.numbers, len(self.numbers))
        cut = rng.randint(1, len(order))
        return signed_sum(order[:cut], order[cut:])

    def _running_sums(self) -> list[int]:
        return list(accumulate(self.numbers))[1:]

    def _facts(self, answer: str, several: bool) -> str:
        """The running sums of all numbers, then the sum of those to subtract; as one fact the sum of all.

        Example: for the numbers 3 5 2 and the target 4 several facts are `total 8 10 minus 3` (answer `5 + 2 - 3`), one
        is `total 10`.
        """
        running = self._running_sums()
        if not several:
            return f"total {running[-1]}"
        return f"total {' '.join(map(str, running))} minus {sum(self._taken_away())}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        right = self._running_sums()
        running = right
        while running == right:
            running = sorted(rng.randint(1, MAX_NUMBER) for _ in right)
        said = f"total {' '.join(map(str, running))} minus {rng.randint(0, running[-1])}"
        return said, self._random_answer(rng)

    def _facts_stated(self, reasoning: str) -> list[bool]:
        running = self._running_sums()
        if match := self._one_fact.fullmatch(reasoning):
            return [int(match.group(1)) == running[-1]]
        if match := self._several_facts.fullmatch(reasoning):
            said = [int(word) for word in match.group(1).split()]
            return [said == running, int(match.group(2)) == sum(self._taken_away())]
        return []

    def blind(self) -> str:
        """Return the expression that adds all numbers, whatever the target."""
        return signed_sum(list(self.numbers), [])

    def greedy(self) -> str:
        """Return the largest number with each other one added or subtracted, from large to small.

        The choice leads nearer to the target; a number is added if both are equally near.
        """
        first, *others = sorted(self.numbers, reverse=True)
        total, added, taken = first, [first], []
        for number in others:
            if abs(total + number - self.target) <= abs(total - number - self.target):
                total += number
                added.append(number)
            else:
                total -= number
                taken.append(number)
        return signed_sum(added, taken)


SPEC = EnvironmentSpec(
    name="countdown",
    config_type=CountdownConfig,
    make=Countdown,
    version="2",
    fingerprint=fingerprint,
    countable=is_here,
    plenty=512,
)
