"""The compact rendering of `deepcoder`: programs by example, answered by a real Python expression.

deepcoder [ 3 1 4 _ ] = 3 _ _ _ _ _ . [ 2 9 _ _ ] = 7 _ _ _ _ _ . x = ? <think>
max 4 min 1 so - </think> <answer> return max ( x ) - min ( x ) </answer>
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import permutations, product
from typing import Any

from plat_envs.api import Seen
from plat_envs.instances import SPLIT_SHARES, Candidate, draw, ready, split_of
from plat_envs.programs.evaluator import equal, parse, run
from plat_envs.programs.problem import DeepCoderConfig
from plat_envs.stand_in import MAX_NUMBER, NUMBER_TEMPLATES, padded
from plat_envs.turns.episode import Episode

# The programs of compact instances: what can be said in one or two steps about a list of two to four numbers.

SHOWN, TESTS = 2, 10  # of the tests, the first ones are shown
LARGEST_INPUT = 9
Number = int | list[int]

# What a reasoning calls a part of a program -> the part.
PARTS = {
    "max": "max ( x )",
    "min": "min ( x )",
    "len": "len ( x )",
    "first": "x [ 0 ]",
    "back": "x [ - 1 ]",
}
_SLICED = tuple(f"{name} ( x [ {cut} ] )" for name in ("max", "min") for cut in ("1 :", ": - 1"))
DEPTH_ONE = (*PARTS.values(), *_SLICED, "x [ 1 : ]", "x [ : - 1 ]")


def _programs() -> dict[str, list[str]]:
    """Return kind -> programs of this kind."""
    parts = list(PARTS.values())
    pairs = list(permutations(parts, 2))
    numbers = [str(number) for number in range(1, 6)]
    changes = [(sign, number) for sign in "+-*" for number in numbers if (sign, number) != ("*", "1")]
    return {
        "one": list(DEPTH_ONE),
        "two": [f"{one} {sign} {other}" for one, other in permutations((*parts, *_SLICED), 2) for sign in "+-*"],
        "number": [f"{one} {sign} {number}" for one in (*parts, *_SLICED) for sign, number in changes],
        "each": [f"[ y {sign} {other} for y in x ]" for sign, other in (*changes, *product("+-*", parts))]
        + [f"[ {one} - y for y in x ]" for one in parts],
        "if": [f"{one} if {number} in x else {other}" for one, other in pairs for number in range(LARGEST_INPUT + 1)],
    }


PROGRAMS = _programs()
LIKELIEST_FIRST = tuple(program for programs in sorted(PROGRAMS.values(), key=len) for program in programs)


@dataclass(frozen=True)
class SmallProblem:
    """`program`: one that passes; `tests`: pairs of a list and its value, of which the first SHOWN are shown."""

    program: str
    tests: tuple[tuple[tuple[int, ...], Number], ...]

    @property
    def examples(self) -> str:
        """The shown examples, whatever their order: they decide the split."""
        return str(sorted(self.tests[:SHOWN]))


def value(program: str, x: tuple[int, ...]) -> Number | None:
    """Return the value of one of these programs; None if it has none, or one that the vocabulary cannot say."""
    tree = parse(program)
    result = None if tree is None else run(tree, x)
    numbers = result if isinstance(result, list) else [result]
    fits = all(type(number) is int and 0 <= number <= MAX_NUMBER for number in numbers)
    return result if fits else None


@lru_cache(maxsize=1024)
def ground(program: str) -> str:
    """Return the values of a program on a fixed set of lists: equal programs have equal grounds."""
    rng = random.Random("deepcoder/ground")
    inputs = [tuple(rng.randint(0, LARGEST_INPUT) for _ in range(rng.randint(2, 4))) for _ in range(60)]
    tree = parse(program)
    assert tree is not None
    return repr([run(tree, x) for x in inputs])


@lru_cache(maxsize=1)
def _splits() -> dict[str, str]:
    """Return ground -> split. Every kind of program is in every split, in the shares of `instances`."""
    splits: dict[str, str] = {}
    for programs in PROGRAMS.values():
        new = dict.fromkeys(ground(program) for program in programs)
        ordered = sorted((text for text in new if text not in splits), key=lambda text: sha256(text.encode()).digest())
        splits |= {text: SPLIT_SHARES[number % len(SPLIT_SHARES)] for number, text in enumerate(ordered)}
    return splits


def _tests(rng: random.Random, program: str) -> tuple[tuple[tuple[int, ...], Number], ...] | None:
    """Draw tests. No other program of one step passes all, and no constant more than half; None if that fails."""
    drawn: dict[tuple[int, ...], Number] = {}
    for _ in range(200):
        x = tuple(rng.randint(0, LARGEST_INPUT) for _ in range(rng.randint(2, 4)))
        result = value(program, x)
        if result is not None:
            drawn.setdefault(x, result)
        if len(drawn) == TESTS:
            break
    tests = tuple(drawn.items())
    others = [other for other in DEPTH_ONE if ground(other) != ground(program)]
    most_common = max(Counter(repr(result) for _, result in tests).values(), default=TESTS)
    if (
        len(tests) < TESTS
        or most_common > TESTS // 2
        or any(all(value(other, x) == result for x, result in tests) for other in others)
    ):
        return None
    return tests


def _make(number: float, program: str) -> SmallProblem | None:
    """Return a problem of a program, with tests that are drawn by a number."""
    tests = _tests(random.Random(f"deepcoder/{number}"), program)
    return None if tests is None else SmallProblem(program, tests)


@lru_cache(maxsize=4096)
def small_problem(config: DeepCoderConfig, split: str, seed: int) -> SmallProblem:
    """Return the problem of (split, seed). Raises BadEnvironment for an unknown split.

    Its program decides its split if `config.new_programs`, and else its shown examples do.
    """

    def candidates(rng: random.Random) -> Iterator[Candidate[SmallProblem]]:
        while True:
            program = rng.choice(PROGRAMS[rng.choice(sorted(PROGRAMS))])
            if config.new_programs:
                yield ground(program), partial(_make, rng.random(), program)
                continue
            problem = _make(rng.random(), program)
            yield None if problem is None else ready(problem.examples, problem)

    assign = _splits().__getitem__ if config.new_programs else split_of
    return draw("deepcoder", split, seed, config.shared_pool, candidates, assign)


INPUT_WORDS, VALUE_WORDS = 4, 6
_PART = "|".join(PARTS)
_FACTS = re.compile(rf"((?:{_PART}) \d{{1,2}}(?: (?:{_PART}) \d{{1,2}})?) so (?:\+|-|\*|if|for|\[|{_PART})")


class CompactCoder(Episode):
    """An answer is valid if it is a program; its reward is the share of the tests that it passes."""

    task = "deepcoder"
    rules = ""  # the compact rendering has no instructions
    templates = NUMBER_TEMPLATES
    config: DeepCoderConfig
    given: SmallProblem

    def _load(self, seed: int, noise: int) -> None:
        self.given = small_problem(self.config, self.split, seed)

    @property
    def problem(self) -> str:
        return f"{self.given.program} {self.given.examples}"

    def step(self, text: str) -> tuple[Seen, float, bool, dict[str, Any]]:
        observation, reward, done, info = super().step(text)
        return observation, reward, done, info | {"constant_reward": self.constant_reward}

    def _read(self, answer: str) -> tuple[list[ast.expr], bool]:
        program = parse(answer)
        return ([], False) if program is None else ([program], True)

    def _play(self, action: ast.expr) -> tuple[float, bool, bool]:
        passed = [equal(run(action, x), wanted) for x, wanted in self.given.tests]
        self.success = all(passed)
        return self._worth(sum(passed) / len(passed)), True, self.success

    def _worth(self, share: float) -> float:
        """Return the reward of a program that passes this share of the tests."""
        return share if self.config.reward == "share" else float(share == 1)

    # --- the prompt ---------------------------------------------------------------------------------------------------

    def _compact(self) -> str:
        examples = [
            f"[ {padded(' '.join(map(str, x)), INPUT_WORDS)} ] = {padded(_words(result), VALUE_WORDS)} ."
            for x, result in self.given.tests[:SHOWN]
        ]
        budget = f" {self._budget()}" if self.config.turns > 1 else ""
        return f"deepcoder {' '.join(examples)} x = ?{budget} <think>"

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def _good_answer(self, rng: random.Random) -> str:
        return f"return {self.given.program}"

    def _random_answer(self, rng: random.Random) -> str:
        return f"return {rng.choice(PROGRAMS[rng.choice(sorted(PROGRAMS))])}"

    def _value_of(self, part: str) -> Number | None:
        """Return the value of a part of programs for the first list shown."""
        return value(PARTS[part], self.given.tests[0][0])

    def _facts(self, answer: str, several: bool) -> str:
        used = sorted(
            (name for name, text in PARTS.items() if text in answer), key=lambda name: answer.find(PARTS[name])
        )
        named = list(dict.fromkeys([*used, "max", "min"]))[: 2 if several else 1]
        facts = " ".join(f"{name} {self._value_of(name)}" for name in named)
        return f"{facts} so {_sign(answer)}"

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        answer = self._random_answer(rng)
        while True:
            named = rng.sample(sorted(PARTS), 2)
            said = f"{' '.join(f'{name} {rng.randint(0, MAX_NUMBER)}' for name in named)} so {_sign(answer)}"
            if not all(self._facts_stated(said)):
                return said, answer

    def _facts_stated(self, reasoning: str) -> list[bool]:
        match = _FACTS.fullmatch(reasoning)
        if match is None:
            return []
        words = match[1].split()
        return [self._value_of(name) == int(number) for name, number in zip(words[::2], words[1::2], strict=True)]

    # --- scripted policies --------------------------------------------------------------------------------------------

    def best_constant(self) -> Number:
        """Return the value that most tests have; of several, that of the earliest test."""
        counts = Counter(repr(wanted) for _, wanted in self.given.tests)
        return max((wanted for _, wanted in self.given.tests), key=lambda wanted: counts[repr(wanted)])

    @property
    def constant_reward(self) -> float:
        """What the best constant earns for the current problem."""
        wanted = [repr(result) for _, result in self.given.tests]
        return self._worth(wanted.count(repr(self.best_constant())) / len(wanted))

    def blind(self) -> str:
        """Return one of two fixed programs, by the kind of result alone. They fit more problems than most others."""
        is_list = isinstance(self.given.tests[0][1], list)
        return f"return {'[ y - min ( x ) for y in x ]' if is_list else 'x [ - 1 ]'}"

    def greedy(self) -> str:
        """Return the first program that fits the examples shown. Programs that are drawn more often come first."""
        shown = self.given.tests[:SHOWN]
        fits = (program for program in LIKELIEST_FIRST if all(value(program, x) == wanted for x, wanted in shown))
        return f"return {next(fits)}"


def _words(number: Number) -> str:
    return f"[ {' '.join(map(str, number))} ]" if isinstance(number, list) else str(number)


def _sign(answer: str) -> str:
    """Return the word that says how an answer is built, e.g. "-", "for", or the name of its only part."""
    words = answer.replace("[ - 1 ]", "").replace(": - 1", "").split()
    for sign in ("if", "for", "+", "-", "*"):
        if sign in words:
            return sign
    return next((name for name, text in PARTS.items() if answer == f"return {text}"), "[")
