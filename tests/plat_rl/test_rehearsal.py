"""An environment that breaks its contract is named before any run, with the turn and the word."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from plat.errors import PlatError
from plat_envs.api import EnvironmentSpec, find_environment
from plat_rl.loop.check_task import play


@dataclass(frozen=True)
class Config:
    size: int = 3


class Whole:
    """Counts down; keeps the contract."""

    instructions = ""

    def __init__(self, split: str) -> None:
        self.split = split

    @property
    def problem(self) -> str:
        return f"{self.split} {self.seed}"

    def reset(self, seed: int, noise: int = 0) -> str:
        self.seed, self.left = seed, 4
        return "count 4 <think>"

    def step(self, text: str) -> tuple[Any, Any, Any, Any]:
        self.left -= 1
        done = self.left == 0
        return f"count {self.left} <think>", 0.5, done, {"success": done, "format_valid": True}

    def close(self) -> None:
        self.closed = True

    def reasoning_level(self, reasoning: str) -> str | None:
        return None


def spec_of(kind: Any) -> EnvironmentSpec:
    return EnvironmentSpec("own", Config, lambda c, split, r: kind(split), "1", False, True, "text", "binary")


def without(name: str) -> Any:
    return type(
        "Lacking",
        (),
        {key: value for key, value in vars(Whole).items() if key not in (name, "__dict__", "__weakref__")},
    )


def changed(**methods: Any) -> Any:
    return type("Changed", (Whole,), methods)


def opening(text: Any) -> Any:
    """A `reset` that gives this."""

    def reset(self: Whole, seed: int, noise: int = 0) -> Any:
        Whole.reset(self, seed)
        return text

    return changed(reset=reset)


def in_turn_three(result: Any) -> Any:
    """A `step` that gives this, or raises it, in the third turn."""

    def step(self: Whole, text: str) -> Any:
        given = Whole.step(self, text)
        if self.left == 1:
            if isinstance(result, BaseException):
                raise result
            return result
        return given

    return changed(step=step)


INFO = {"success": False, "format_valid": True}


def with_info(**values: Any) -> Any:
    """A `step` that has these values in its info in the third turn."""
    return in_turn_three(("count 1 <think>", 0.0, False, INFO | values))


class Silent(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise ValueError("no words")


BROKEN = {
    "no close": (without("close"), "it has no `close`"),
    "no problem": (without("problem"), "it has no `problem`"),
    "no step": (without("step"), "it has no `step`"),
    "no instructions": (without("instructions"), "it has no `instructions`"),
    "raises": (in_turn_three(KeyError("-1")), "turn 3): `step("),
    "word": (
        in_turn_three(("count -1 <think>", 0.0, False, INFO)),
        "turn 3): word 2 of the observation of `step`, '-1'",
    ),
    "two spaces": (in_turn_three(("count  1 <think>", 0.0, False, INFO)), "word 2 of the observation of `step`, ''"),
    "open end": (in_turn_three(("count 1", 0.0, False, INFO)), "does not end with <think>"),
    "no text": (in_turn_three((None, 0.0, False, INFO)), "the observation of `step` is None"),
    "five values": (in_turn_three(("count 1 <think>", 0.0, False, False, INFO)), "`step` gives ("),
    "no info": (in_turn_three(("count 1 <think>", 0.0, False, {})), "the info of `step` is {}"),
    "no reward": (in_turn_three(("count 1 <think>", None, False, INFO)), "the reward of `step` is None"),
    "nan": (in_turn_three(("count 1 <think>", float("nan"), False, INFO)), "the reward of `step` is nan"),
    "bool as reward": (in_turn_three(("count 1 <think>", True, False, INFO)), "the reward of `step` is True"),
    "text as reward": (in_turn_three(("count 1 <think>", "1", False, INFO)), "the reward of `step` is '1'"),
    "huge reward": (in_turn_three(("count 1 <think>", 10**400, False, INFO)), "turn 3): the reward of `step` is 1000"),
    "longer reward": (
        in_turn_three(("count 1 <think>", 10**5000, False, INFO)),
        "the reward of `step` is a value of type int",
    ),
    "done": (in_turn_three(("count 1 <think>", 0.0, "no", INFO)), "turn 3): the third value of `step` (done) is 'no'"),
    "success": (with_info(success="yes"), "turn 3): `success` in the info of `step` is 'yes'"),
    "format": (with_info(format_valid=None), "`format_valid` in the info of `step` is None"),
    "negative actions": (with_info(actions=-5), "`actions` in the info of `step` is -5"),
    "actions": (with_info(actions="x"), "`actions` in the info of `step` is 'x'"),
    "half a move": (with_info(moves=0.5), "`moves` in the info of `step` is 0.5"),
    "no constant": (with_info(constant_reward=float("nan")), "`constant_reward` in the info of `step` is nan"),
    "constant": (with_info(constant_reward="x"), "`constant_reward` in the info of `step` is 'x'"),
    "unknown trick": (with_info(tricks=["nope"]), "`tricks` in the info of `step` is ['nope']"),
    "tricks": (with_info(tricks="imports"), "`tricks` in the info of `step` is 'imports'"),
    "ends a generator": (in_turn_three(GeneratorExit()), "failed: GeneratorExit"),
    "cannot be shown": (in_turn_three(Silent()), "failed: Silent"),
    "level": (changed(reasoning_level=lambda self, text: "deep"), "`reasoning_level` gives 'deep'"),
    "first word": (
        opening("unheard <think>"),
        "word 1 of the observation of `reset`",
    ),
    "demonstration": (changed(demonstrate=lambda self, rng, level, good=True: 3), "`demonstrate` gives 3"),
}


NUMPY = {"success": np.bool_(False), "format_valid": np.True_, "actions": np.int64(1), "moves": 0}


@pytest.mark.parametrize(
    "kind",
    [
        Whole,
        in_turn_three(("count 1 <think>", np.float32(0.5), np.bool_(False), NUMPY)),
        with_info(constant_reward=1, tricks=["imports"], actions=True),
    ],
)
def test_an_environment_that_keeps_the_contract_is_played(kind: Any) -> None:
    play(spec_of(kind), Config(), "compact", only_known_words=True)


@pytest.mark.parametrize("name", ["sokoban", "frozenlake", "metamathqa", "countdown"])
@pytest.mark.parametrize("rendering", ["compact", "chat"])
def test_so_is_every_environment_of_plat(name: str, rendering: str) -> None:
    spec = find_environment(name)
    play(spec, spec.config_type(), rendering, only_known_words=rendering == "compact")


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_is_named(case: str) -> None:
    kind, said = BROKEN[case]
    random.seed(case)
    with pytest.raises(PlatError) as caught:
        play(spec_of(kind), Config(), "compact", only_known_words=True)
    assert said in caught.value.what and "the environment 'own' cannot be played (train, seed " in caught.value.what
    assert caught.value.fix and caught.value.where


def test_words_that_no_stand_in_knows_are_fine_for_a_real_model() -> None:
    strange = opening("Bonjour, agent!")
    play(spec_of(strange), Config(), "chat", only_known_words=False)
