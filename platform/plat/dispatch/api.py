"""What every dispatcher promises.

`submit` takes runs that should be done; it never fails because one of them cannot run. `poll` says what has changed.
A run is done when its `result.json` exists, whatever a scheduler says. A run held by somebody else is waited for. A run
that fails takes down nothing else. `cancel` and `close` leave every run in a state from which the next sweep goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from plat.spec.experiment import Run

QUEUED, RUNNING, WAITING, ENDED = "queued", "running", "waiting", "ended"


@dataclass(frozen=True)
class Handle:
    """A submitted run; `job` is what the dispatcher calls it (a scheduler's job id, or the run's own id)."""

    run_id: str
    job: str


@dataclass(frozen=True)
class Change:
    """A job went to another state.

    job       the handle's `job`; of a preparation (work shared by runs, e.g. a base model) "prepare:<key>"
    kind      "run" or "prepare"
    title     a run's name, a preparation's title
    state     QUEUED (again: it will be retried), RUNNING, WAITING (somebody else has it), ENDED
    outcome   of an ended or retried job: as in docs/architecture.md, or "unknown": a lease that only --steal takes
    reason    one line
    """

    job: str
    kind: str
    title: str
    state: str
    outcome: str | None = None
    reason: str = ""


class Dispatcher(Protocol):
    """Executes runs somewhere."""

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs, in this order. PlatError only when none of them could ever run here."""

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Do what is to be done now, wait at most `timeout` seconds for news, and give them."""

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Stop these runs for good (outcome "cancelled"); those not started are forgotten."""

    def close(self) -> None:
        """Let go of everything; what still runs is asked to stop."""
