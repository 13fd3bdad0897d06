"""MetaMathQA: word problems with one number as the answer. An exact match, except for case and white space, pays 1.

With more than one turn, a wrong answer may be corrected. The reward halves with each attempt, as in the released code.
`data: generated` makes word problems of two or three steps in a fixed vocabulary, with whole numbers up to 30.

Real data (`data: file | hub`) have rows with `query` and `response`, as in meta-math/MetaMathQA. The answer is the
column `answer`, or the end of the response after "The answer is:". Rows with the same `original_question` stay in one
split. Real problems have the chat rendering only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from plat_envs.api import EnvironmentSpec
from plat_envs.data import check_source, fingerprint, is_here, of_split, problem_of_seed, rows_of
from plat_envs.environment_errors import BadEnvironment, check_range
from plat_envs.instances import Candidate
from plat_envs.stand_in import MAX_NUMBER, NUMBER_TEMPLATES, sentence
from plat_envs.turns.episode import Episode, EpisodeConfig

_MARK = "The answer is:"


@dataclass(frozen=True)
class MetaMathQAConfig(EpisodeConfig):
    turns: int = 1  # attempts; the released config says 5 but stops after one action [turns]
    actions_per_turn: int = 1  # answers in an attempt [actions]
    data: str = "generated"  # where the problems come from: generated | file | hub
    path: str = ""  # of the file, where `data` is file
    dataset: str = "meta-math/MetaMathQA"  # on the hub, where `data` is hub
    revision: str = ""  # of the dataset on the hub; empty: the newest
    max_rows: int = 1_000_000  # of real data [rows]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source("metamathqa", self.data, self.path)
        check_range("max_rows", self.max_rows, 1, 10**9)


@dataclass(frozen=True)
class Problem:
    """`solution`: reasoning that reaches the answer; `family`: problems with the same text here share a split."""

    question: str
    solution: str
    answer: str
    family: str


def _from_row(row: dict[str, Any], where: str) -> Problem | None:
    """Return the problem of a row, or None if it has no answer. Raises BadEnvironment for missing columns."""
    query, response = row.get("query"), row.get("response")
    if not isinstance(query, str) or not isinstance(response, str):
        raise BadEnvironment(f"not a MetaMathQA row: {str(row)[:80]}", where=where, fix="columns query and response")
    solution, _, answer = response.rpartition(_MARK)
    answer = str(row.get("answer") or answer).strip()
    if not answer:
        return None
    return Problem(query, " ".join((solution or response).split()), answer, str(row.get("original_question") or query))


@lru_cache(maxsize=64)
def _pool(config: MetaMathQAConfig, split: str) -> list[Problem]:
    rows = rows_of(config.data, config.path, config.dataset, config.revision)[: config.max_rows]
    problems = [_from_row(row, config.path or config.dataset) for row in rows]
    usable = [problem for problem in problems if problem is not None]
    return of_split("metamathqa", usable, lambda problem: problem.family, split, config.shared_pool)


@lru_cache(maxsize=4096)
def problem_of(config: MetaMathQAConfig, split: str, seed: int) -> Problem:
    """Return the problem of (split, seed); see `problem_of_seed`."""

    def candidates(rng: random.Random) -> Iterator[Candidate[Problem]]:
        while True:
            drawn = word_problem(rng)
            yield None if drawn is None else (drawn[3], partial(Problem, *drawn))

    return problem_of_seed("metamathqa", config, split, seed, _pool, candidates)


def normal(answer: str) -> str:
    """Return the answer as it is compared: in lower case, without white space."""
    return "".join(answer.lower().split())


class MetaMathQA(Episode):
    task = "metamathqa"
    rules = "You are solving mathematics problems. Give the final answer alone in the answer section."
    config: MetaMathQAConfig

    def __init__(self, config: MetaMathQAConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        if rendering == "compact" and config.data != "generated":
            raise BadEnvironment(
                f"metamathqa: data {config.data!r} has no compact rendering", fix="rendering: chat, or data: generated"
            )
        self._chain = sentence("N", tail=r"(?: [-+*] \d{1,2} = \d{1,2}){1,3}")
        self.templates = NUMBER_TEMPLATES

    def _load(self, seed: int, noise: int) -> None:
        self.row = problem_of(self.config, self.split, seed)
        self.wrong = 0

    @property
    def problem(self) -> str:
        return self.row.family

    def _read(self, answer: str) -> tuple[list[str], bool]:
        text = normal(answer)
        return ([text], True) if text else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        self.success = action == normal(self.row.answer)
        reward = 0.5**self.wrong if self.success else 0.0
        self.wrong += not self.success
        return reward, True, self.success

    def _compact(self) -> str:
        budget = f" {self._budget()}" if self.config.turns > 1 else ""
        return f"metamathqa {self.row.question}{budget} <think>"

    def _chat(self) -> str:
        verdict = "\nYour last answer was wrong. Try again." if self.wrong and not self.success else ""
        return f"Question: {self.row.question}{verdict}"

    def _good_answer(self, rng: random.Random) -> str:
        return self.row.answer

    def _random_answer(self, rng: random.Random) -> str:
        return str(rng.randint(0, MAX_NUMBER))

    def _facts(self, answer: str, several: bool) -> str:
        """Return the steps of the solution, or only the first; a solution of real data is free text and stays whole."""
        generated = self.config.data == "generated"
        return self.row.solution if several or not generated else _first_steps(self.row.solution, 1)

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        """Return the steps of another problem, and its answer."""
        while True:
            other = word_problem(rng)
            if other is not None and other[1] != self.row.solution:
                return other[1], other[2]

    def _facts_stated(self, reasoning: str) -> list[bool]:
        if not self._chain.fullmatch(reasoning):
            return []
        steps = reasoning.count("=")
        return [
            _first_steps(reasoning, count) == _first_steps(self.row.solution, count) for count in range(1, steps + 1)
        ]

    def blind(self) -> str:
        """Return the sum of all numbers in the question, whatever it says of them, e.g. "9"."""
        return str(sum(int(word) for word in self.row.question.split() if word.isdigit()))

    def greedy(self) -> str:
        """Return the result of the solution's first step. Raises BadEnvironment for real data."""
        if self.config.data != "generated":
            raise BadEnvironment("real problems have no steps to look ahead to", fix="data=generated")
        return self.row.solution.split()[4]  # e.g. 3 * 4 = 12 + 3 = 15


def _first_steps(chain: str, count: int) -> str:
    """Return the beginning of a chain such as `3 * 4 = 12 + 3 = 15`: a number and `count` steps of four words each."""
    return " ".join(chain.split()[: 1 + 4 * count])


SPEC = EnvironmentSpec(
    name="metamathqa",
    config_type=MetaMathQAConfig,
    make=MetaMathQA,
    version="2",
    fingerprint=fingerprint,
    countable=is_here,
    plenty=512,
)


# Word problems of two or three steps in vocabulary words, all of the same length.
#
#     tom has 3 boxes with 4 apples each . tom buys 3 more apples . tom loses 2 of them . how many ?
#
# An opening (eight words, no or one step) and two events (five words, one step each). Every number met on the way is a
# word: 0 to 30.

NAMES = ("tom", "ann", "bob", "sue")
THINGS = ("apples", "books", "coins", "pens")

# who, other: names; thing: a plural; a, b: numbers
_OPENINGS = (
    ("{who} has {a} {thing} in the small bag", ""),
    ("{who} has {a} boxes with {b} {thing} each", "*"),
    ("{who} has {a} {thing} and finds {b} more", "+"),
    ("{who} has twice the {a} {thing} of {other}", "twice"),
)
_EVENTS = (
    ("{who} buys {b} more {thing}", "+"),
    ("{other} gives {who} {b} more", "+"),
    ("{who} finds {b} more {thing}", "+"),
    ("{who} gives {other} {b} {thing}", "-"),
    ("{who} loses {b} of them", "-"),
    ("{who} sells {b} of them", "-"),
    ("now {who} has twice this", "twice"),
)


def word_problem(rng: random.Random) -> tuple[str, str, str, str] | None:
    """Draw a problem: return question, chain of steps, answer and canonical form, or None if a number leaves 0..30.

    The canonical form is the arithmetic alone: the same calculation in other words is the same problem.
    """
    who, other = rng.sample(NAMES, 2)
    thing = rng.choice(THINGS)
    sentences: list[str] = []
    chain: list[str] = []
    value = 0
    for position, kinds in enumerate((_OPENINGS, _EVENTS, _EVENTS)):
        wording, operator = rng.choice(kinds)
        boxes = operator == "*"
        if position == 0:
            value = rng.randint(2, 5) if boxes else rng.randint(1, 9)
            chain.append(str(value))
        operand = 2 if operator == "twice" else rng.randint(2, 5) if boxes else rng.randint(1, 9)
        sentences.append(wording.format(who=who, other=other, thing=thing, a=value, b=operand))
        if operator:
            sign = "*" if operator == "twice" else operator
            value = value * operand if sign == "*" else value + operand if sign == "+" else value - operand
            if not 0 <= value <= MAX_NUMBER:
                return None
            chain.append(f"{sign} {operand} = {value}")
    solution = " ".join(chain)
    return f"{' . '.join(sentences)} . how many ?", solution, str(value), solution
