"""Sessions: the environments of a run, leased to a batch for as long as it is played.

    sessions = Sessions(config)
    with sessions.lease("train", 128) as environments:
        ... reset and step them

A run holds as many environments as its largest batch, and one more at a change of split: a session that comes back is
used again for the same split, and closed when another split is leased.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from plat_envs.api import Environment
from plat_rl.environments import environment_errors, environment_of, make_environments
from plat_rl.run_config import RunConfig


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
