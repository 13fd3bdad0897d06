"""Scripted policies, which show what a task yields without learning.

    random    a random valid answer
    blind     a sensible answer that ignores what makes the task hard
    greedy    one step of look-ahead, or an obvious rule
    optimal   the good answer of the demonstrations: a shortest way (slips ignored), or the right answer

If `blind` succeeds as often as a learned policy, success is no sign of attention to the problem. `blind` and `greedy`
read the game behind the text, so every task has its own (`plat_envs.capabilities.Scripted`).
"""

from __future__ import annotations

import random

from plat_envs.capabilities import Scripted
from plat_envs.environment_errors import BadEnvironment
from plat_envs.turns.episode import Episode

POLICIES = ("random", "blind", "greedy", "optimal")


def response(environment: Episode, policy: str, rng: random.Random) -> str:
    """Return the response of a policy (one of POLICIES) in the current state.

    `blind` and `greedy` answer at random if they have no action. They raise BadEnvironment for a task without such
    policies, and `greedy` for real MetaMathQA problems.
    """
    if policy in ("blind", "greedy"):
        if not isinstance(environment, Scripted):
            raise BadEnvironment(f"no {policy} policy is written for {environment.task}", fix="random or optimal")
        answer = environment.blind() if policy == "blind" else environment.greedy()
        if answer:
            return f"{environment.templates[0]} </think> <answer> {answer} </answer>"
    return environment.demonstrate(rng, "template", good=policy == "optimal")
