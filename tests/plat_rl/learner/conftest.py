"""What the learner's tests share: a config in double precision, a batch, and one iteration's updates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plat_rl.embedded.batch import Batch
from plat_rl.embedded.learner import Learner
from plat_rl.rl.config import FilterConfig
from plat_rl.rl.filter.selection import step_plan
from plat_rl.run_config import RunConfig

PLAN = step_plan(6, 6, FilterConfig(), 2)


@pytest.fixture
def config(compose) -> Callable[..., RunConfig]:
    def make(*overrides: str) -> RunConfig:
        return compose("task=frozenlake", "dtype=float64", "train.lr=1e-3", *overrides)

    return make


@pytest.fixture(scope="module")
def batch(compose, play) -> Batch:
    """Two groups of three, with returns that differ within each."""
    actual = play(compose("task=frozenlake"))
    actual.rewards = np.round(np.random.default_rng(0).normal(size=len(actual.rewards)), 2)
    return actual


@pytest.fixture(scope="session")
def make_learner() -> Callable[..., Learner]:
    return lambda config, policy: Learner(config, policy.shape, policy.flat.to(getattr(torch, config.dtype)), 0)


@pytest.fixture(scope="session")
def update(make_learner) -> Callable[..., tuple[Learner, dict[str, float]]]:
    """`update(config, policy, batch, plan, step)`: a fresh learner after one iteration's updates, and the metrics."""

    def run(config, policy, batch, plan=PLAN, step=1) -> tuple[Learner, dict[str, float]]:
        learner = make_learner(config, policy)
        return learner, learner.update(batch, plan, np.random.default_rng(3), step)

    return run


@pytest.fixture(scope="session")
def moved() -> Callable[..., Any]:
    """`moved(learner, policy)`: how far the actor went, parameter by parameter."""
    return lambda learner, policy: learner.actor.parameter.detach().double() - policy.flat.double()
