"""An environment that breaks its contract is named before any run, with the turn and the word."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from plat.errors import PlatError
from plat_envs.api import PICTURE_RENDERINGS, EnvironmentSpec, Observation, find_environment
from plat_rl.embedded.transformer import vision
from plat_rl.loop import check_task
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


@pytest.mark.parametrize("name", ["sokoban", "frozenlake"])
@pytest.mark.parametrize("rendering", PICTURE_RENDERINGS)
def test_so_are_those_with_pictures(name: str, rendering: str) -> None:
    spec = find_environment(name)
    play(spec, spec.config_type(), rendering, only_known_words=rendering == "compact_image")


def seen(text: Any, *images: Any) -> Any:
    return opening(Observation(text, images))


BOARD = np.zeros((8, 8, 3), dtype=np.uint8)
OF_RESET = "the observation of `reset`"
BROKEN_PICTURES = {
    "missing": (seen("count <image> <think>"), f"{OF_RESET} has 1 places <image> for 0 pictures"),
    "too many": (seen("count <image> <think>", BOARD, BOARD), f"{OF_RESET} has 1 places <image> for 2 pictures"),
    "no place": (seen("count 4 <think>", BOARD), f"{OF_RESET} has 0 places <image> for 1 pictures"),
    "only a place": (opening("count <image> <think>"), f"{OF_RESET} has 1 places <image> for 0 pictures"),
    "no text": (seen(None, BOARD), f"the text of {OF_RESET} is None"),
    "list": (opening(Observation("count <image> <think>", [BOARD])), f"the images of {OF_RESET} are [array("),  # type: ignore[arg-type]
    "no array": (seen("count <image> <think>", "board"), f"picture 1 of {OF_RESET} is 'board'"),
    "floats": (seen("count <image> <think>", BOARD / 255), f"picture 1 of {OF_RESET} has values of type float64"),
    "grey": (seen("count <image> <think>", BOARD[..., 0]), f"picture 1 of {OF_RESET} has the shape (8, 8)"),
    "alpha": (
        seen("count <image> <image> <think>", BOARD, np.zeros((8, 8, 4), dtype=np.uint8)),
        f"picture 2 of {OF_RESET} has the shape (8, 8, 4)",
    ),
    "empty": (seen("count <image> <think>", BOARD[:0]), f"picture 1 of {OF_RESET} has the shape (0, 8, 3)"),
    "half a patch": (
        seen("count <image> <think>", np.zeros((8, 12, 3), dtype=np.uint8)),
        f"picture 1 of {OF_RESET} has the shape (8, 12, 3)",
    ),
    "too wide": (
        seen("count <image> <think>", np.zeros((8, 8 * 65, 3), dtype=np.uint8)),
        f"picture 1 of {OF_RESET} has the shape (8, 520, 3)",
    ),
    "word": (seen("unheard <image> <think>", BOARD), f"word 1 of {OF_RESET}, 'unheard', is not in the vocabulary"),
    "glued": (seen("count<image> <think>", BOARD), f"word 1 of {OF_RESET}, 'count<image>', is not in the vocabulary"),
    "open end": (seen("count <image>", BOARD), f"{OF_RESET} does not end with <think>"),
    "neither": (opening(3), f"{OF_RESET} is 3"),
    "later": (in_turn_three((Observation("count <think>", (BOARD,)), 0.0, False, INFO)), "turn 3): the observation"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN_PICTURES)
def test_what_is_wrong_with_pictures_is_named(case: str) -> None:
    kind, said = BROKEN_PICTURES[case]
    with pytest.raises(PlatError) as caught:
        play(spec_of(kind), Config(), "compact_image", only_known_words=True)
    assert said in str(caught.value) and caught.value.fix
    assert "test_rehearsal.py" in str(caught.value.where)


def test_a_real_model_is_shown_pictures_of_any_size() -> None:
    shown = seen("count <image> <think>", np.zeros((8, 12, 3), dtype=np.uint8))
    play(spec_of(shown), Config(), "chat_image", only_known_words=False)


def test_the_sizes_of_a_rehearsal_are_those_of_stand_ins() -> None:
    assert (check_task.PATCH, check_task.MOST) == (vision.PATCH, vision.MOST)


def test_pictures_are_for_renderings_that_have_them() -> None:
    shown = seen("count <image> <think>", BOARD)
    play(spec_of(shown), Config(), "compact_image", only_known_words=True)
    play(spec_of(opening("count 4 <think>")), Config(), "compact_image", only_known_words=True)
    with pytest.raises(PlatError, match=r"the observation of `reset` is Observation\(text='count <image> <") as caught:
        play(spec_of(shown), Config(), "compact", only_known_words=True)
    assert caught.value.fix == "return a text"


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
