"""The chat rendering of `deepcoder`: a statement in words, answered by a whole program that runs in the sandbox."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import lru_cache
from threading import Lock
from typing import Any

from plat_envs.api import Seen
from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.programs.problem import AnyTest, DeepCoderConfig, Problem, best_constant
from plat_envs.sandbox.hack import attempts
from plat_envs.sandbox.program import Grade, Limits, Program, unfence
from plat_envs.sandbox.sandbox import Sandbox
from plat_envs.turns.episode import Episode

# Grade the programs of all episodes of a process, those that wait at the same time together.
#
# A sandbox repeats a program that ran out of wall-clock time alone. That is only true while nothing else is graded, so
# one batch is graded at a time. It uses all cores.

Job = tuple[Program, Sequence[AnyTest]]
FIX = "apt-get install bubblewrap, or name a grader: task.env.sandbox=remote task.env.grader=URL"
_STARTING = Lock()


class Grader:
    """The sandbox of a process.

    Raises BadEnvironment if its level cannot be had, or for `limits_only`, and ServiceError for a grader that is away.
    """

    def __init__(self, level: str | None, url: str | None, limits: Limits) -> None:
        try:
            self._sandbox = Sandbox(level, limits, url=url, for_language_model=True)
        except ServiceError:
            raise
        except BadEnvironment as error:
            raise BadEnvironment(error.what, where="task.env.sandbox", fix=FIX) from error
        self._waiting: list[tuple[Job, Future[Grade]]] = []
        self._of_list, self._of_sandbox = Lock(), Lock()

    def grade(self, program: Program, tests: Sequence[AnyTest]) -> Grade:
        """Grade a program by its tests. May be called in several threads at once.

        Raises BadEnvironment for a program without tests, or if the sandbox fails.
        """
        mine: Future[Grade] = Future()
        with self._of_list:
            self._waiting.append(((program, tests), mine))
        with self._of_sandbox:  # whoever comes first grades what waits by then
            if not mine.done():
                self._grade_waiting()
        return mine.result()

    def _grade_waiting(self) -> None:
        with self._of_list:
            batch, self._waiting = self._waiting, []
        try:
            grades = self._sandbox.grade_all([job for job, _ in batch])
        except BaseException as error:
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), grade in zip(batch, grades, strict=True):
            future.set_result(grade)

    def provenance(self) -> dict[str, str | int]:
        """Return what a run records about its sandbox."""
        return self._sandbox.provenance()


@lru_cache(maxsize=8)
def _grader(level: str | None, url: str | None, limits: Limits) -> Grader:
    return Grader(level, url, limits)


def grader_of(config: DeepCoderConfig) -> Grader:
    """Return the grader of this process. Its level is tried once.

    Raises BadEnvironment if the level cannot be had, and ServiceError if a grader does not answer.
    """
    with _STARTING:
        return _grader(config.level, config.grader or None, config.limits)


RULES = """You write a Python program that solves a problem. Hidden tests run it with other inputs than the example.
Only the standard library is there. The answer is the whole program and nothing else."""
TEMPLATES = (
    "I read the problem and write the program.",
    "I think of the edge cases first.",
    "Let me write it step by step.",
    "The example shows what is asked for.",
)
ADVICE = "The answer is the program, without comments. Max response length: 400 words."
_FACTS = re.compile(r"The input is (.+?)\.( The result is (.+?)\.)?( There are (\d+) hidden tests\.)? So I write it\.")


class ChatCoder(Episode):
    """`problem_of`: seed -> problem. Every answer that is not empty is valid.

    `constant_reward` is what the best constant output earns for the current problem, by the option `reward`.
    """

    task = "deepcoder"
    rules = RULES
    advice = ADVICE
    templates = TEMPLATES
    config: DeepCoderConfig
    given: Problem

    def __init__(
        self, config: DeepCoderConfig, split: str, rendering: str, problem_of: Callable[[int], Problem]
    ) -> None:
        super().__init__(config, split, rendering)
        self._problem_of = problem_of
        self._program = ""

    def _load(self, seed: int, noise: int) -> None:
        self.given = self._problem_of(seed)

    @property
    def problem(self) -> str:
        return self.given.key

    def step(self, text: str) -> tuple[Seen, float, bool, dict[str, Any]]:
        self._program = ""
        observation, reward, done, info = super().step(text)
        measured = {"constant_reward": self.constant_reward, "tricks": sorted(attempts(self._program))}
        return observation, reward, done, info | measured

    def _read(self, answer: str) -> tuple[list[str], bool]:
        program = unfence(answer).strip("\n")
        return ([program], True) if program.strip() else ([], False)

    def _play(self, action: str) -> tuple[float, bool, bool]:
        self._program = action
        grade = grader_of(self.config).grade(self.given.program(action), self.given.hidden)
        self.success = all(grade.passed)
        return self._worth(grade.share), True, self.success

    def _worth(self, share: float) -> float:
        """Return the reward of a program that passes this share of the tests."""
        return share if self.config.reward == "share" else float(share == 1)

    @property
    def constant_reward(self) -> float:
        return self._worth(best_constant(self.given.hidden)[1])

    # --- the prompt ---------------------------------------------------------------------------------------------------

    def _chat(self) -> str:
        return self.given.statement

    # --- demonstrations -----------------------------------------------------------------------------------------------

    def _good_answer(self, rng: random.Random) -> str:
        return _fenced(self.given.reference or self._constant())

    def _random_answer(self, rng: random.Random) -> str:
        """Return a wrong program of the family in one of ten cases, else a constant of little thought."""
        if self.given.wrong and rng.random() < 0.1:
            return _fenced(rng.choice(self.given.wrong))
        return _fenced(self.given.constant(rng.choice((0, 1, "", -1))))

    def _facts(self, answer: str, several: bool) -> str:
        further = f" The result is {self.given.gives}. There are {len(self.given.hidden)} hidden tests."
        return f"The input is {self.given.given}.{further if several else ''} So I write it."

    def _wrong_facts(self, rng: random.Random) -> tuple[str, str]:
        count = len(self.given.hidden) + rng.randint(1, 9)
        said = f"The input is {self.given.given}. The result is {self.given.gives}. There are {count} hidden tests."
        return f"{said} So I write it.", self._random_answer(rng)

    def _facts_stated(self, reasoning: str) -> list[bool]:
        match = _FACTS.fullmatch(reasoning)
        if match is None:
            return []
        true = [match[1] == self.given.given]
        if match[2]:
            true.append(match[3] == self.given.gives)
        if match[4]:
            true.append(int(match[5]) == len(self.given.hidden))
        return true

    # --- scripted policies --------------------------------------------------------------------------------------------

    def _constant(self) -> str:
        return self.given.constant(best_constant(self.given.hidden)[0])

    def blind(self) -> str:
        """Return the program whose constant output passes most tests."""
        return _fenced(self._constant())

    def greedy(self) -> str:
        """Return the wrong program of the family that passes most tests; else the blind answer."""
        return _fenced(self.given.wrong[0] if self.given.wrong else self._constant())


def _fenced(program: str) -> str:
    return f"```python\n{program.rstrip()}\n```"
