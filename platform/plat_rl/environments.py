"""The environments of a run: the task's environment, its options and its instances (light: imports no torch)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import Any

import plat_envs.api
from plat.errors import RunError, SpecError
from plat.trainer.api import Need
from plat_envs.api import Environment, EnvironmentSpec, configure, find_environment
from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_rl.run_config import RunConfig


@contextmanager
def environment_errors() -> Iterator[None]:
    """Raise SpecError for a BadEnvironment in the block, and RunError of class "service" for a ServiceError."""
    try:
        yield
    except ServiceError as error:
        raise RunError(error.what, failure_class="service", where=error.where, fix=error.fix) from error
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where or "task", fix=error.fix) from error


def environment_of(config: RunConfig) -> tuple[EnvironmentSpec, Any]:
    """Return the task's environment and its checked options (`config_type`). A missing option `turns` is `task.turns`.

    Raises SpecError if there is no such environment, or an option of it is wrong.
    """
    try:
        spec = find_environment(config.task.name)
        options = {"turns": config.task.turns, **config.task.env}
        known = {field.name for field in fields(spec.config_type)}
        configured = configure(spec, options if "turns" in known else config.task.env)
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where or "task", fix=error.fix) from error
    if config.train.rendering not in spec.renderings:
        what = f"{spec.name} has no {config.train.rendering} rendering"
        text = config.train.rendering.removesuffix("_image")
        real = "a real model: model.path=DIR train.rendering=chat"
        fix = f"train.rendering={text}" if text in spec.renderings else real
        raise SpecError(what, where="task", fix=fix + " train.pictures=false" * config.train.pictures)
    return spec, configured


def as_need(need: plat_envs.api.Need) -> Need:
    """Return an environment's need as the platform's: `plat_envs` imports nothing of the platform."""
    return Need(need.what, need.absent, need.fix)


def needs_of_task(config: RunConfig) -> list[Need]:
    """Return what runs of the task need beside this package. Raises SpecError for a wrong environment or option."""
    spec, options = environment_of(config)
    means = spec.means(options, config.train.rendering)
    try:
        return [as_need(need) for need in (*spec.needs(options), *([means.need()] if means else []))]
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where or "task", fix=error.fix) from error


def facts_of_task(config: RunConfig) -> dict[str, str | int]:
    """Try what the task needs of this machine, such as a sandbox, and return what a run records about it.

    Raises SpecError if this machine does not have it, or for a wrong environment or option, and RunError (class
    "service") if a server does not answer.
    """
    spec, options = environment_of(config)
    means = spec.means(options, config.train.rendering)
    with environment_errors():
        return means.facts() if means else {}


def make_environments(config: RunConfig, split: str, count: int) -> list[Environment]:
    """Return `count` environments of the run's task that play instances of `split`.

    Raises SpecError if there is no such environment, or it cannot be made with these options, and RunError (class
    "service") if a server does not answer.
    """
    spec, options = environment_of(config)
    with environment_errors():
        return [spec.make(options, split, config.train.rendering) for _ in range(count)]


# Sessions: the environments of a run, leased to a batch for as long as it is played.
#
#     sessions = Sessions(config)
#     with sessions.lease("train", 128) as environments:
#         ... reset and step them
#
# A run holds as many environments as its largest batch, and one more at a change of split: a session that comes back is
# used again for the same split, and closed when another split is leased.


class Sessions:
    """A pool of environments of one run. `live` is the number of those that are not closed.

    Raises SpecError if there is no such environment, or an option of it is wrong.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self._spec, self._options = environment_of(config)
        self._idle: list[tuple[str, Environment]] = []
        self.live = 0

    @property
    def concurrent(self) -> bool:
        """True if sessions may be stepped in several threads at once."""
        return self._spec.concurrent(self._options)

    @contextmanager
    def lease(self, split: str, count: int) -> Iterator[list[Environment]]:
        """Lend `count` environments of a split. They come back at the end of the block.

        After an error in the block their state is not known, so they are closed. Raises SpecError if an environment
        cannot be made with these options, and RunError (class "service") in place of a ServiceError.
        """
        leased: list[Environment] = []
        with environment_errors():
            try:
                self._take(split, count, leased)
                yield leased
            except BaseException:
                self._close(leased)
                raise
            self._idle += [(split, environment) for environment in leased]

    def close(self) -> None:
        """Close the sessions that are not leased."""
        idle, self._idle = self._idle, []
        self._close([environment for _, environment in idle])

    def _take(self, split: str, count: int, into: list[Environment]) -> None:
        fitting = [environment for own, environment in self._idle if own == split]
        unfit = [environment for own, environment in self._idle if own != split] + fitting[count:]
        self._idle = []
        into += fitting[:count]
        if unfit and len(into) < count:  # before others are closed: sessions may share what the last of them gives back
            into += self._made(split, 1)
        self._close(unfit)
        into += self._made(split, count - len(into))

    def _made(self, split: str, count: int) -> list[Environment]:
        new = make_environments(self.config, split, count)
        self.live += len(new)
        return new

    def _close(self, environments: list[Environment]) -> None:
        """Close all of these, also if one fails: its error is raised afterwards."""
        self.live -= len(environments)
        with ExitStack() as stack:
            for environment in environments:
                stack.callback(environment.close)
