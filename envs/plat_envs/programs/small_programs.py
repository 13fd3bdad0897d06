"""The programs of compact instances: what can be said in one or two steps about a list of two to four numbers."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import permutations, product

from plat_envs.instances import SPLIT_SHARES, Candidate, draw, ready, split_of
from plat_envs.programs.config import DeepCoderConfig
from plat_envs.programs.evaluator import parse, run
from plat_envs.stand_in.vocabulary import MAX_NUMBER

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
