"""The options of `deepcoder`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plat_envs.data import check_source
from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.sandbox.program import Call, Limits, Program, Test
from plat_envs.turns.episode import EpisodeConfig

LEVELS = ("auto", "namespaces", "landlock", "remote", "limits_only")


@dataclass(frozen=True)
class DeepCoderConfig(EpisodeConfig):
    turns: int = 1  # programs that may be handed in; as released [turns]
    actions_per_turn: int = 1  # programs in an answer [actions]
    new_programs: bool = False  # True: programs of an instance occur in no other split; False: its examples do not
    reward: str = "share"  # as released: the share of the tests that pass | all: 1 if all pass, else 0
    data: str = "generated"  # where the problems of the chat rendering come from: generated | file | hub
    path: str = ""  # of the problems, where `data` is file
    dataset: str = "agentica-org/DeepCoder-Preview-Dataset"  # on the hub, where `data` is hub
    subsets: str = "primeintellect,taco,lcbv5"  # its parts, with commas between them
    revision: str = ""  # of the dataset on the hub; empty: the newest
    split: str = "honest"  # honest: the hash of a problem decides | released: validation draws from what is trained on
    tests: str = "all"  # of a real problem | longest_15: those with the longest inputs
    sandbox: str = "auto"  # level of the sandbox: auto | namespaces | landlock | remote | limits_only
    grader: str = ""  # address of a grader, where `sandbox` is remote
    cpu_seconds: float = 2.0  # of a program for a test [seconds]
    wall_seconds: float = 4.0  # likewise; a program that waits longer is run once more, alone [seconds]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_choice("reward", self.reward, ("share", "all"))
        if self.turns > 1 and self.reward == "share":
            what = "deepcoder: with several turns, failing often would pay more than one program that passes"
            raise BadEnvironment(what, where="turns", fix="turns: 1, or reward: all")
        check_choice("split", self.split, ("honest", "released"))
        check_choice("tests", self.tests, ("all", "longest_15"))
        check_choice("sandbox", self.sandbox, LEVELS)
        check_source("deepcoder", self.data, self.path)
        if (self.sandbox == "remote") != bool(self.grader):
            raise BadEnvironment(
                f"deepcoder: sandbox is {self.sandbox!r} and grader is {self.grader!r}",
                fix="sandbox: remote and grader: http://HOST:PORT belong together",
            )
        self.limits  # noqa: B018 - raises BadEnvironment for a limit that is out of range

    @property
    def limits(self) -> Limits:
        """The limits of each test."""
        return Limits(cpu_seconds=self.cpu_seconds, wall_seconds=self.wall_seconds)

    @property
    def level(self) -> str | None:
        """The level of the sandbox that is asked for; None: the first that this machine has."""
        return None if self.sandbox == "auto" else self.sandbox


# A problem of the chat rendering: what is asked for, its tests, and programs that are right and wrong.

AnyTest = Test | Call


@dataclass(frozen=True)
class Problem:
    """`key` identifies it; `statement` is all that is asked for, with the example.

    function    that the program defines; None: the program reads stdin and prints
    example     a test that the statement shows; None for real problems, whose statements have their own examples
    hidden      the tests that decide the reward
    reference   a program that passes them; "" if none is known
    wrong       wrong programs, the one that passes most tests first
    given, gives   what kind of input and of result it has, in words
    """

    key: str
    statement: str
    function: str | None
    example: AnyTest | None
    hidden: tuple[AnyTest, ...]
    reference: str = ""
    wrong: tuple[str, ...] = ()
    given: str = ""
    gives: str = ""

    def program(self, source: str) -> Program:
        """Return a program that the tests of this problem can grade."""
        return Program(source, self.function)

    def constant(self, value: Any) -> str:
        """Return the program that gives this value, whatever its input is."""
        if self.function is None:
            return f"print({value!r})"
        return f"def {self.function}(*_):\n    return {value!r}"


def best_constant(tests: Sequence[AnyTest]) -> tuple[Any, float]:
    """Return the expected value that most tests have, the earliest of several, and the share of them that pass."""
    counts = Counter(map(_same, tests))
    best = max(tests, key=lambda test: counts[_same(test)])
    return best.expected, counts[_same(best)] / len(tests)


def _same(test: AnyTest) -> str:
    """Return a text that is equal for expected values that are equal to the grader."""
    if isinstance(test, Call):
        return repr(test.expected)
    return "\n".join(line.rstrip() for line in test.expected.rstrip().split("\n"))
