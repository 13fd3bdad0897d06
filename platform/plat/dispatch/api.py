"""What every dispatcher promises.

`submit` takes runs that should be done; it never fails because one of them cannot run. `poll` says what has changed.
A run is done when its `result.json` exists, whatever a scheduler says. A run held by somebody else is waited for. A run
that fails takes down nothing else. `cancel` and `close` leave every run in a state from which the next sweep goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from plat.errors import PlatError
from plat.outcomes import is_result

if TYPE_CHECKING:
    from plat.spec.runs import Run

QUEUED, RUNNING, WAITING, ENDED = "queued", "running", "waiting", "ended"
REFUSED = "refused"  # the outcome of a run that a scheduler does not accept


@dataclass(frozen=True)
class Handle:
    """A submitted run; `job` is what the dispatcher calls it (a scheduler's job id, or the run's own id)."""

    run_id: str
    job: str


@dataclass(frozen=True)
class Change:
    """A job went to another state.

    job       the handle's `job`; of a preparation (work shared by runs, e.g. a base model) "prepare:<trainer>:<key>"
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


@dataclass(eq=False)
class Job:
    """A run or a preparation as a dispatcher follows it. The fields that `Change` has too mean the same.

    run      the run; of a preparation, the first run that needs it (they all have the same recipe)
    started  when its newest attempt began, in monotonic seconds; 0 before the first
    seconds  how long the newest attempt took that has ended; 0 before
    tries    how often it has been tried again, by failure class
    cancelled  somebody asked to stop it for good
    place    where a scheduler has it, in words ("job 123_4 on cluster lab"), as long as it has; "" otherwise
    """

    id: str
    kind: str
    title: str
    run: Run
    state: str = QUEUED
    outcome: str | None = None
    reason: str = ""
    started: float = 0.0
    seconds: float = 0.0
    tries: Counter[str] = field(default_factory=Counter)
    cancelled: bool = False
    place: str = ""

    def change(self) -> Change:
        return Change(self.id, self.kind, self.title, self.state, self.outcome, self.reason)

    @property
    def has_result(self) -> bool:
        """It ended with a result: finished, or stopped early by a rule."""
        return self.state == ENDED and is_result(self.outcome)


class SchedulerError(PlatError):
    """A scheduler cannot be asked, or refuses.

    certain  it has refused: nothing was submitted
    passes   a limit on the number of jobs was reached; it may be accepted later
    """

    def __init__(
        self,
        what: str,
        *,
        certain: bool = False,
        passes: bool = False,
        where: str | None = None,
        mend: str | None = None,
    ) -> None:
        super().__init__(what, where=where, mend=mend)
        self.certain = certain
        self.passes = passes


class Dispatcher(Protocol):
    """Executes runs somewhere. The driver calls it from one thread.

    slots       how many jobs run at once; None until `submit` has decided it
    stopping    set by anybody, at any moment (a signal handler too): from then on nothing is started
    notices     lines for whoever watches the sweep; the driver shows them and takes them out
    farewell    what `stop` means here, in words for whoever pressed Ctrl-C
    detachable  whether its jobs go on when this process ends; then `handed_over` says when it may
    """

    slots: int | None
    stopping: bool
    notices: list[str]
    farewell: str
    detachable: bool

    @property
    def jobs(self) -> Mapping[str, Job]:
        """Every job so far, by its id, ended ones included."""

    def submit(self, runs: Sequence[Run]) -> list[Handle]:
        """Queue runs, in this order, and get ready to start them. PlatError when none of them could ever run here."""

    def poll(self, timeout: float = 0.0) -> list[Change]:
        """Start what can start, wait at most `timeout` seconds for changes, and give them."""

    def active(self) -> bool:
        """Whether there is anything left to poll for."""

    def handed_over(self) -> bool:
        """Whether everything that has not ended is with a scheduler, and needs this process no longer."""

    def stop(self) -> None:
        """Start nothing more. What cannot live without this process is asked to save its state and stop; what a
        scheduler has goes on."""

    def kill(self) -> None:
        """End at once what cannot live without this process; the next sweep goes on from the newest checkpoints."""

    def cancel(self, handles: Sequence[Handle]) -> None:
        """Stop these runs for good (outcome "cancelled"); those not started are forgotten."""

    def close(self) -> None:
        """Let go of everything; what still runs is asked to stop."""
