"""The compact rendering of `deepcoder`: programs by example, answered by a real Python expression.

deepcoder [ 3 1 4 _ ] = 3 _ _ _ _ _ . [ 2 9 _ _ ] = 7 _ _ _ _ _ . x = ? <think>
max 4 min 1 so - </think> <answer> return max ( x ) - min ( x ) </answer>
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from typing import Any

from plat_envs.programs.config import DeepCoderConfig
from plat_envs.programs.evaluator import equal, parse, run
from plat_envs.programs.small_programs import (
    LIKELIEST_FIRST,
    PARTS,
    PROGRAMS,
    SHOWN,
    Number,
    SmallProblem,
    small_problem,
    value,
)
from plat_envs.stand_in.templates import NUMBER_TEMPLATES
from plat_envs.stand_in.vocabulary import MAX_NUMBER, padded
from plat_envs.turns.episode import Episode

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

    def step(self, text: str) -> tuple[str, float, bool, dict[str, Any]]:
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
