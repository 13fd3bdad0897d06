"""Where the driver gets its runs: from a list, all at once (a sweep), or from a search, some as earlier ones end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from plat.dispatch.report import RunEnd
    from plat.spec.runs import Run


class Source(Protocol):
    """Gives the driver runs. All calls come from one thread.

    A run that is done already (by an earlier sweep or search, by identity) is not done again: its end comes at once.
    """

    def next(self) -> Sequence[Run]:
        """Further runs to do now; none while it waits for runs that are under way. It limits itself how many."""

    def ended(self, end: RunEnd) -> None:
        """A run that it gave has ended, or was found done, failed for good, or in other hands."""

    @property
    def exhausted(self) -> bool:
        """Whether it will give no further run, whatever ends."""


class FixedRuns:
    """A list of runs, given at once."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)

    def next(self) -> Sequence[Run]:
        """All of them, at the first call."""
        runs, self._runs = self._runs, []
        return runs

    def ended(self, end: RunEnd) -> None:
        """A list does not depend on how its runs end."""

    @property
    def exhausted(self) -> bool:
        return not self._runs
