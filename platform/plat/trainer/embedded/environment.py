"""The environments of a run: which one, with which options, on which instances (light: imports no torch)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Any

from plat.errors import SpecError
from plat.trainer.config import RunConfig
from plat_envs.api import Environment, EnvironmentSpec, configure, find_environment
from plat_envs.errors import BadEnvironment

TRIES = 50  # seeds looked at for each distinct instance that is wanted


def environment_of(config: RunConfig) -> tuple[EnvironmentSpec, Any]:
    """The task's environment and its checked options; `task.turns` is the environment's own limit too.

    SpecError: there is no such environment, or an option of it is wrong.
    """
    try:
        spec = find_environment(config.task.name)
        options = {"turns": config.task.turns, **config.task.env}
        known = {field.name for field in fields(spec.config_type)}
        return spec, configure(spec, options if "turns" in known else config.task.env)
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where or "task", mend=error.mend) from error


def make_environments(config: RunConfig, split: str, count: int) -> list[Environment]:
    """`count` environments of the run's task that play instances of `split`."""
    spec, options = environment_of(config)
    try:
        return [spec.make(options, split, config.train.rendering) for _ in range(count)]
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where, mend=error.mend) from error


def distinct_seeds(environment: Environment, first: int, count: int, excluded: Collection[str] = ()) -> list[int]:
    """The first `count` instance seeds from `first` upward whose problems differ and are not in `excluded`.

    Where the task has too few such instances, the list is filled up with the seeds from `first` upward as they come.
    """
    seen = set(excluded)
    seeds: list[int] = []
    for seed in range(first, first + TRIES * count):
        environment.reset(seed)
        if environment.problem not in seen:
            seen.add(environment.problem)
            seeds.append(seed)
            if len(seeds) == count:
                return seeds
    return [*seeds, *range(first, first + count - len(seeds))]
