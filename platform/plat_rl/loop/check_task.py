"""Check a run's task before the run is submitted: its environment, and the number of its different problems."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from numbers import Integral
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import PlatError, PluginError, SpecError
from plat.user_code import definition_of, user_code
from plat_envs.api import (
    IMAGE,
    LEVELS,
    PICTURE_RENDERINGS,
    Demonstrates,
    EnvironmentSpec,
    GradesReasoning,
    Observation,
)
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import evaluation_tries
from plat_envs.sandbox.hack import KINDS
from plat_envs.stand_in import IDS, THINK, WORDS
from plat_rl.environments import environment_errors, environment_of
from plat_rl.loop.randomness import count_key, too_few
from plat_rl.run_config import RunConfig

# Play a few random episodes of a plugged-in environment before any run starts, and report violations of its contract.
#
# The contract is `plat_envs.api.Environment`: for example a missing method, an observation that is no text, a word
# that a stand-in does not know, an exception in turn 3.

METHODS = ("reset", "step", "close")  # of a session
TEXTS = ("instructions", "problem")  # likewise, after `reset`
SEEDS = 3  # episodes of each split
TURNS = 5  # of an episode at most
SPLITS = ("train", "validation")
PATCH, MOST = 8, 64  # of `plat_rl.embedded.transformer.vision`, which imports torch
CONTRACT = "see `Environment` in plat_envs/api.py and docs/adding-an-environment.md"


def rehearse(config: RunConfig) -> None:
    """Play the task of a config as its runs would. Raises PluginError at the environment's code for a mistake.

    Skips plat's own environments, which have tests, and those that say that they are not `countable` when planning.
    """
    spec, options = environment_of(config)
    if not is_plugged_in(spec) or not spec.countable(options):
        return
    words = config.train.rendering in ("compact", "compact_image") and config.model.path is None
    play(spec, options, config.train.rendering, only_known_words=words)


def is_plugged_in(spec: EnvironmentSpec) -> bool:
    """Return True if another package publishes the environment."""
    return not spec.config_type.__module__.startswith("plat_envs.")


def play(spec: EnvironmentSpec, options: Any, rendering: str, *, only_known_words: bool) -> None:
    """Play SEEDS random episodes of each of SPLITS. Raises PluginError for a mistake, SpecError for rejected options.

    only_known_words  every observation must consist of words of the vocabulary, and `<image>` for each picture, and end
                      with `<think>`, as stand-ins need
    """
    for split in SPLITS:
        for seed in range(SEEDS):
            _Episode(spec, options, rendering, split, seed, only_known_words).play()


class _Episode:
    """One episode, with its position for error messages."""

    def __init__(
        self, spec: EnvironmentSpec, options: Any, rendering: str, split: str, seed: int, only_known_words: bool
    ) -> None:
        self.spec, self.split, self.seed, self.known = spec, split, seed, only_known_words
        self.has_pictures = rendering in PICTURE_RENDERINGS
        self.turn = 0
        self.rng = random.Random(f"{split}/{seed}")
        self.environment = self._call("make", spec.make, options, split, rendering)

    def play(self) -> None:
        """Play the episode to its end, at most TURNS turns. Raises PluginError for the first mistake."""
        environment = self.environment
        for name in METHODS:
            self._has(name)
        self._observation("reset", self._call("reset", environment.reset, self.seed))
        for name in TEXTS:
            self._has(name)
            if not isinstance(text := self._call(name, lambda name=name: getattr(environment, name)), str):
                raise self._wrong(f"its `{name}` is {in_short(text)}", "make it a text")
        for self.turn in range(1, TURNS + 1):
            text = self._response()
            self._grade(text.partition("</think>")[0].strip())
            if self._step(text):
                break
        self._call("close", environment.close)

    def _grade(self, reasoning: str) -> None:
        """Check the level of a reasoning, if the environment grades reasonings."""
        if not isinstance(self.environment, GradesReasoning):
            return
        level = self._call("reasoning_level", self.environment.reasoning_level, reasoning)
        if level is not None and level not in LEVELS:
            raise self._wrong(f"`reasoning_level` gives {in_short(level)}", f"give one of {', '.join(LEVELS)}, or None")

    def _has(self, name: str) -> None:
        """Raise PluginError if the environment, or its type, has no attribute of this name."""
        environment = self.environment
        if name not in dir(environment):
            raise self._wrong(f"it has no `{name}`", f"give {type(environment).__name__} one; {CONTRACT}")

    def _step(self, text: str) -> bool:
        """Take one step, check what it returns, and return True if the episode is over."""
        given = self._call("step", self.environment.step, text)
        if fault := fault_of_step(given):
            raise self._wrong(*fault)
        observation, _, done, _ = given
        if not done:
            self._observation("step", observation)
        return bool(done)

    def _observation(self, method: str, given: Any) -> None:
        text = self._text(method, given)
        if not self.known:
            return
        is_picture = isinstance(given, Observation)
        for number, word in enumerate(text.split(" "), start=1):
            if word not in IDS and not (is_picture and word == IMAGE):
                raise self._wrong(
                    f"word {number} of the observation of `{method}`, {word!r:.40}, is not in the "
                    "vocabulary of stand-ins",
                    "use words of plat_envs/stand_in.py joined by single spaces, or a real model: "
                    "model.path=DIR train.rendering=chat",
                )
        if not text.endswith(THINK):
            raise self._wrong(f"the observation of `{method}` does not end with {THINK}", CONTRACT)

    def _text(self, method: str, given: Any) -> str:
        """Return the text of an observation, after its pictures are checked."""
        what = f"the observation of `{method}`"
        if isinstance(given, str) and self.has_pictures:
            given = Observation(given, ())
        elif isinstance(given, str):
            return given
        if not isinstance(given, Observation) or not self.has_pictures:
            wanted = "return a text or an Observation" if self.has_pictures else "return a text"
            raise self._wrong(f"{what} is {in_short(given)}", wanted)
        if not isinstance(given.text, str):
            raise self._wrong(f"the text of {what} is {in_short(given.text)}", "make it a text")
        if not isinstance(given.images, tuple):
            raise self._wrong(f"the images of {what} are {in_short(given.images)}", "give a tuple of arrays")
        for number, picture in enumerate(given.images, start=1):
            if fault := fault_of_picture(picture):
                raise self._wrong(f"picture {number} of {what} {fault}", "give an array (height, width, 3) of uint8")
            if self.known and not _is_of_patches(picture):
                fix = f"for stand-ins, sides of {PATCH}, {2 * PATCH}, ... {MOST * PATCH} pixels"
                raise self._wrong(f"picture {number} of {what} has the shape {picture.shape}", fix)
        places, count = given.text.count(IMAGE), len(given.images)
        if places != count:
            fix = f"write {IMAGE} once for each picture"
            raise self._wrong(f"{what} has {places} places {IMAGE} for {count} pictures", fix)
        return given.text

    def _response(self) -> str:
        """Return a demonstration, if the environment gives any, or random words, well formed or not."""
        rng = self.rng
        words = " ".join(rng.choice(WORDS) for _ in range(rng.randrange(6)))
        if isinstance(self.environment, Demonstrates) and rng.random() < 0.5:
            demonstrate = self.environment.demonstrate
            shown = self._call("demonstrate", demonstrate, rng, rng.choice(LEVELS), rng.random() < 0.5)
            if not isinstance(shown, str):
                raise self._wrong(f"`demonstrate` gives {in_short(shown)}", "return a text")
            return shown
        return rng.choice((words, f"{words} </think> <answer> {words} </answer>", f"</think> <answer> {words}"))

    def _call(self, name: str, method: Any, *arguments: Any) -> Any:
        """Call a method and return its value. Errors name the split, seed and turn."""
        shown = ", ".join(in_short(argument) for argument in arguments if not isinstance(argument, random.Random))
        try:
            with user_code(f"{self._title()}: `{name}({shown})` failed"), environment_errors():
                return method(*arguments)
        except PlatError as error:
            error.where = error.where or definition_of(method)
            raise

    def _title(self) -> str:
        turn = f", turn {self.turn}" if self.turn else ""
        return f"the environment {self.spec.name!r} cannot be played ({self.split}, seed {self.seed}{turn})"

    def _wrong(self, what: str, fix: str) -> PluginError:
        place = definition_of(getattr(type(self.environment), "step", self.spec.make))
        return PluginError(f"{self._title()}: {what}", where=place, fix=fix)


def fault_of_step(given: Any) -> tuple[str, str] | None:
    """Return what is wrong in what `step` returned, and what to return in its place; None if nothing is.

    The observation is not looked at.
    """
    if not isinstance(given, tuple) or len(given) != 4:
        return f"`step` gives {in_short(given)}", "return (observation, reward, done, info)"
    _, reward, done, info = given
    if not isinstance(info, dict) or not {"success", "format_valid"} <= info.keys():
        return f"the info of `step` is {in_short(info)}", "a dict with success and format_valid"
    if not _is_number(reward):
        return f"the reward of `step` is {in_short(reward)}", "return a finite number"
    if not _is_bool(done):
        return f"the third value of `step` (done) is {in_short(done)}", "return True or False"
    for name, (is_right, wanted) in _OF_INFO.items():
        if name in info and not is_right(info[name]):
            return f"`{name}` in the info of `step` is {in_short(info[name])}", f"give {wanted}"
    return None


def fault_of_picture(picture: Any) -> str | None:
    """Return what is wrong with a picture of an observation; None if nothing is."""
    if not isinstance(picture, np.ndarray):
        return f"is {in_short(picture)}"
    if picture.dtype != np.uint8:
        return f"has values of type {picture.dtype}"
    if picture.ndim != 3 or picture.shape[2] != 3 or picture.size == 0:
        return f"has the shape {picture.shape}"
    return None


def _is_of_patches(picture: NDArray[np.uint8]) -> bool:
    """Return True if a stand-in can see a picture: it is made of whole patches, and of no more than fit."""
    return all(side % PATCH == 0 and side <= MOST * PATCH for side in picture.shape[:2])


def in_short(value: Any) -> str:
    """Return the beginning of a value's representation, or its type if it has none."""
    try:
        return f"{value!r:.60}"
    except Exception:  # of the value's own code, or a number with thousands of digits
        return f"a value of type {type(value).__name__}"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    if _is_bool(value) or not hasattr(value, "__float__"):  # float() would also read a text
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and int(value) >= 0


def _are_tricks(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(kind, str) and kind in KINDS for kind in value
    )


_OF_INFO: dict[str, tuple[Callable[[Any], bool], str]] = {
    "success": (_is_bool, "True or False"),
    "format_valid": (_is_bool, "True or False"),
    "actions": (_is_count, "a whole number from 0"),
    "moves": (_is_count, "a whole number from 0"),
    "constant_reward": (_is_number, "a finite number, or leave it out"),
    "tricks": (_are_tricks, f"a list of some of {', '.join(KINDS)}"),
}

PATIENCE = 5.0  # for each split [seconds of processor time]
_COUNTED: dict[str, int | None] = {}  # counts of this process, by everything that they depend on


def check_task(config: RunConfig) -> None:
    """Raise PluginError if the environment breaks its contract, SpecError if it has too few problems."""
    rehearse(config)
    check_instances(config)


def check_instances(config: RunConfig) -> None:
    """Raise SpecError if the task has fewer different problems than `eval.instances` or `eval.heldout`.

    If they cannot be counted here within PATIENCE, the task passes; the run counts them when it starts.
    """
    spec, options = environment_of(config)
    if not spec.countable(options):
        return
    for split, count in (("validation", config.eval.instances), ("heldout", config.eval.heldout)):
        if count <= spec.plenty and options == spec.config_type():
            continue
        key = repr((spec.name, options, split, config.train.rendering, config.eval.seed, count))
        if key not in _COUNTED:
            _COUNTED[key] = _count(config, spec, options, split, count) if count else 0
        distinct = _COUNTED[key]
        if distinct is not None and distinct < count:
            raise too_few(spec.name, split, distinct, count)


def _count(config: RunConfig, spec: EnvironmentSpec, options: Any, split: str, count: int) -> int | None:
    """Count the different problems among the seeds that an evaluation tries, up to `count`; None after PATIENCE."""
    problems: set[str] = set()
    deadline = process_time() + PATIENCE
    try:
        environment = spec.make(options, split, config.train.rendering)
        for seed in evaluation_tries(config.eval.seed, count):
            environment.reset(seed)
            problems.add(environment.problem)
            if len(problems) == count:
                break
            if process_time() > deadline:
                return None
    except BadEnvironment as error:
        fix = "; ".join(filter(None, [error.fix, "eval.heldout=0 needs none" if split == "heldout" else ""]))
        raise SpecError(error.what, where=error.where or count_key(split), fix=fix) from error
    return len(problems)
