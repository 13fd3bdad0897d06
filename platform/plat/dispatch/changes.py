"""The changes of a dispatcher's jobs, collected until `poll` hands them to the driver."""

from __future__ import annotations

from plat.dispatch.api import WAITING, Change, Job
from plat.dispatch.decisions import Decision


class Changes:
    """Brings jobs into new states and remembers each change, in order. True while there are changes to take."""

    def __init__(self) -> None:
        self._changes: list[Change] = []

    def __bool__(self) -> bool:
        return bool(self._changes)

    def apply(self, job: Job, decision: Decision) -> None:
        """Do what was decided. A job that waits for somebody else keeps the outcome that it had."""
        if decision.state != WAITING:
            job.outcome, job.reason = decision.outcome, decision.reason
        self.move(job, decision.state)

    def move(self, job: Job, state: str) -> None:
        """Bring a job into another state."""
        job.state = state
        self._changes.append(job.change())

    def take(self) -> list[Change]:
        """The changes since the last call."""
        taken, self._changes = self._changes, []
        return taken
