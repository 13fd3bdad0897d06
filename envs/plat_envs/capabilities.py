"""What an environment may offer beside `reset`, `step` and `close`. It has a capability if it has the methods.

Demonstrates      base models of stand-ins are trained on its demonstrations
GradesReasoning   the level of a reasoning is a metric
Scripted          policies that show what the task yields without learning
"""

from __future__ import annotations

import random
from typing import Protocol, cast, runtime_checkable

from plat_envs.api import Environment
from plat_envs.environment_errors import BadEnvironment

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
