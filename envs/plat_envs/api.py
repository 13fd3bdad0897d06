"""The contract between an environment and its player (entry-point group `plat.environments`).

A session plays one episode after another: `reset(seed)` returns the first observation, each `step(response)` the next
one, and `close()` ends the session. An observation is a whole prompt with the full state (actions left included), so a
player may see the current one only, or all of them. The end of this file has what an environment may offer beside.

    compact   words of `stand_in.WORDS` joined by single spaces; the prompt ends with `<think>`, so the response
              starts inside the think section: "reasoning </think> <answer> actions </answer>"
    chat      natural language for a real LLM; `instructions` is the system message, the observation the user message,
              and the player's turn should be prefilled with `<think>`
    compact_image, chat_image   the same with the board as a picture: an `Observation` in the place of a text
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, get_type_hints, runtime_checkable

from plat_envs.environment_errors import BadEnvironment, one_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RENDERINGS = ("compact", "chat")  # of an environment whose specification names no others
PICTURE_RENDERINGS = ("compact_image", "chat_image")
IMAGE = "<image>"  # the place of a picture in an observation


@dataclass(frozen=True, eq=False)
class Observation:
    """An observation with pictures. Two are equal only if they are the same object.

    text     each IMAGE in it, in order, is the place of a picture; in a compact rendering it is a word
    images   arrays (height, width, 3) of uint8, red green blue
    """

    text: str
    images: tuple[NDArray[np.uint8], ...]


Seen: TypeAlias = str | Observation  # what a player sees: a text, or a text with pictures


class Environment(Protocol):
    """A session on text, or on text with pictures.

    Equal config, split, seed, noise and responses give equal observations, rewards and infos.
    `reset` and `step` raise ServiceError if a service that the environment needs does not answer, after retries.
    """

    instructions: str  # system message; "" in compact rendering

    @property
    def problem(self) -> str:
        """A text that identifies the current problem, equal for two problems that differ only in order or wording."""

    def reset(self, seed: int, noise: int = 0) -> Seen:
        """Start the instance of (split, seed) and return the first observation.

        `noise` selects the random numbers of the environment itself (slips). The trajectories of one prompt share the
        seed and may differ in noise.
        """

    def step(self, text: str) -> tuple[Seen, float, bool, dict[str, Any]]:
        """Play one response and return next observation, reward, done and info. Accepts any text.

        The built-in environments raise BadEnvironment if the episode is over: call `reset` first.

        info has
            success       bool, is the task solved
            format_valid  bool, was the response well-formed and every action in it valid
            actions       int, how many actions of this turn were executed
            moves         int, how many of them changed the state; in a text task an answer that was accepted as valid
                          is one move
            constant_reward   optional float, what the best answer that ignores the input earns for this problem
            tricks            optional list of names, what a program tries beside its problem (`plat_envs.sandbox.hack`)
        An environment that leaves out `actions` or `moves` is taken to have executed one action, which was a move, in
        each turn with a valid format.
        """

    def close(self) -> None:
        """Give back what the session holds, such as a connection. It is not used afterwards."""


@dataclass(frozen=True)
class Need:
    """A file, a service or a program that runs of an environment need.

    what    e.g. "a retrieval server at http://127.0.0.1:8000"
    absent  why it cannot be used now; "" if it can
    fix     the command that mends it
    """

    what: str
    absent: str = ""
    fix: str = ""


class Means(Protocol):
    """Something of the machine that decides how episodes end, such as a sandbox."""

    def need(self) -> Need:
        """Return what it is, and whether this machine has it."""

    def facts(self) -> dict[str, str | int]:
        """Try it, and return what a run records about it.

        Raises BadEnvironment if it cannot be had, and ServiceError if a server that it needs does not answer.
        """


@dataclass(frozen=True)
class EnvironmentSpec:
    """The specification of an environment. The module that defines one imports nothing heavy.

    name         as in the experiment file (`task: frozenlake`)
    config_type  frozen dataclass of scalars; its __post_init__ raises BadEnvironment for invalid values
    make         (config, split, rendering) -> Environment
    version      part of a run's identity: bump it when instances, renderings or rewards change
    fingerprint  config -> what else its problems depend on (the hash of a data file); part of a run's identity
    countable    config -> True if planning can draw and count its problems; False if they must be downloaded first
    plenty       lower bound on the different problems of a split under the default options (`config_type()`)
    code         identity of its code where it is no installed release; None: the hash of its files, so that a changed
                 file makes new runs
    concurrent   config -> True if sessions may be used in several threads at once, e.g. because they wait for a server
    needs        config -> what its runs need beside this package, for `plat plan`. May raise BadEnvironment
    renderings   those that it has
    means        (config, rendering) -> the part of the machine that decides rewards, such as a sandbox; or None
    legacy       option -> the value that means "as before the option was there"; it does not enter the ids of runs
    """

    name: str
    config_type: type
    make: Callable[[Any, str, str], Environment]
    version: str
    fingerprint: Callable[[Any], dict[str, str]] = lambda config: {}
    countable: Callable[[Any], bool] = lambda config: True
    plenty: int = 0
    code: str | None = None
    concurrent: Callable[[Any], bool] = lambda config: False
    needs: Callable[[Any], Sequence[Need]] = lambda config: ()
    renderings: tuple[str, ...] = RENDERINGS
    means: Callable[[Any, str], Means | None] = lambda config, rendering: None
    legacy: Mapping[str, Any] = field(default_factory=dict)


@lru_cache(maxsize=4)
def _published(path: tuple[str, ...]) -> dict[str, EntryPoint]:
    """Return entry points by name, cached for `path` (sys.path): reading all metadata takes 15 ms."""
    return {point.name: point for point in entry_points(group="plat.environments")}


def find_environment(name: str) -> EnvironmentSpec:
    """Return the environment of this name.

    Raises BadEnvironment, with the known names, for an unknown one, and for an entry point that is no EnvironmentSpec.
    """
    published = _published(tuple(sys.path))
    if name not in published:
        raise BadEnvironment(f"unknown environment {name!r}", fix=one_of(name, sorted(published)))
    spec = published[name].load()
    if not isinstance(spec, EnvironmentSpec):
        what = f"the environment {name!r} is a {type(spec).__name__}, not an EnvironmentSpec"
        raise BadEnvironment(what, where=f"the entry point {published[name].value}", fix="name an EnvironmentSpec")
    return spec


@lru_cache(maxsize=256)
def _option_types(config_type: type) -> dict[str, Any]:
    """Return option -> type, cached because a large matrix asks once per combination."""
    kinds = get_type_hints(config_type)
    return {option.name: kinds[option.name] for option in fields(config_type)}


def configure(spec: EnvironmentSpec, options: Mapping[str, Any]) -> Any:
    """Return the config of these options. Raises BadEnvironment for an unknown name, a wrong type or a wrong value."""
    kinds = _option_types(spec.config_type)
    values = {}
    for name, value in options.items():
        if name not in kinds:
            raise BadEnvironment(f"{spec.name} has no option {name!r}", fix=one_of(name, list(kinds)))
        kind = kinds[name]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise BadEnvironment(f"{spec.name}: {name} is {value!r}", fix=f"a value of type {kind.__name__}")
        values[name] = value
    return spec.config_type(**values)


def make_environment(
    name: str, options: Mapping[str, Any] | None = None, split: str = "train", rendering: str = "compact"
) -> Environment:
    """Make an environment. Raises BadEnvironment if the name, an option, the split or the rendering is invalid."""
    spec = find_environment(name)
    return spec.make(configure(spec, options or {}), split, rendering)


# What an environment may offer beside `reset`, `step` and `close`. It has a capability if it has the methods.
#
# Demonstrates      base models of stand-ins are trained on its demonstrations
# GradesReasoning   the level of a reasoning is a metric
# Scripted          policies that show what the task yields without learning

# What a reasoning states about its state, from nothing to much; wrong facts contradict the state.
LEVELS = ("template", "one_fact", "several_facts", "wrong_facts")


@runtime_checkable
class Demonstrates(Protocol):
    def demonstrate(self, rng: random.Random, level: str, good: bool = True) -> str:
        """Return a response for the current state with reasoning of this level (one of LEVELS). Does not play it.

        Facts are followed by a good action, wrong facts by a random one. `good` matters for templates only: True for a
        good action, False for a random one.
        """


class Teacher(Environment, Demonstrates, Protocol):
    """An environment that demonstrates."""


@runtime_checkable
class GradesReasoning(Protocol):
    def reasoning_level(self, reasoning: str) -> str | None:
        """Return the level of a reasoning in the current state; None if it is neither a template nor states facts."""


@runtime_checkable
class Scripted(Protocol):
    """Both return an answer for the current state, or "" if there is none."""

    def blind(self) -> str:
        """Return a sensible answer that ignores what makes the task hard."""

    def greedy(self) -> str:
        """Return the answer of one step of look-ahead, or of an obvious rule. BadEnvironment if there is none."""


def teacher(environment: Environment, name: str) -> Teacher:
    """Return the environment itself. Raises BadEnvironment if it gives no demonstrations; `name` is its task."""
    if not isinstance(environment, Demonstrates):
        raise BadEnvironment(f"{name} gives no demonstrations", fix="a real model: model.path=DIR train.rendering=chat")
    return cast(Teacher, environment)
