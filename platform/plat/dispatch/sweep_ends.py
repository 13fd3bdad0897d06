"""The state of each run when a sweep ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plat.dispatch.dispatcher import ENDED, REFUSED, WAITING, Job
from plat.words.outcomes import ENDED_ON_REQUEST, INTERRUPTED, NOT_KNOWN
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


@dataclass(frozen=True)
class RunEnd:
    """The state of a run after a sweep. `fresh`: an attempt of it ended in this sweep.

    state  done | running (by another process) | queued (a scheduler has it, `reason` says where) | failed | unknown |
           interrupted | missing
    """

    run: Run
    state: str
    outcome: str | None = None
    reason: str = ""
    fresh: bool = False


@dataclass
class SweepReport:
    """Every run of the sweep by id, in the order requested.

    interrupted    a signal ended the sweep early
    given_up       why nothing more was started after failures (`fail_fast`); "" if the sweep went on to its end
    trouble        errors that are not failures of runs; they do not change `exit_code`
    import_failed  a run was found damaged when it was imported into the store
    detached       the sweep was to leave its runs with a scheduler: queued runs count as success
    valueless      runs have ended without a value that the next look of a claim needs
    """

    ends: dict[str, RunEnd] = field(default_factory=dict)
    interrupted: bool = False
    given_up: str = ""
    trouble: list[str] = field(default_factory=list)
    import_failed: bool = False
    detached: bool = False
    valueless: bool = False

    def counts(self) -> dict[str, int]:
        """Return state -> number of runs, for the states that occur."""
        return dict(Counter(str(end.state) for end in self.ends.values()))

    @property
    def exit_code(self) -> int:
        """130 if interrupted; 3 if a run is damaged, `valueless`, or not done nor (if detached) queued; else 0."""
        if self.interrupted:
            return 130
        well = (RunStatus.DONE, RunStatus.QUEUED) if self.detached else (RunStatus.DONE,)
        failed = any(end.state not in well for end in self.ends.values())
        return 3 if self.import_failed or self.valueless or failed else 0


def end_of(job: Job) -> RunEnd:
    """Return the state of a run according to its job."""
    if job.has_result:
        state = RunStatus.DONE
    elif job.state == WAITING:
        return RunEnd(job.run, RunStatus.RUNNING, None, "another process executes it; give the command again later")
    elif job.state != ENDED:
        state = RunStatus.QUEUED if job.place else RunStatus.MISSING
    elif job.outcome == REFUSED:
        state = RunStatus.MISSING
    elif job.outcome in (INTERRUPTED, *ENDED_ON_REQUEST):
        state = RunStatus.INTERRUPTED
    else:
        state = RunStatus.UNKNOWN if job.outcome == NOT_KNOWN else RunStatus.FAILED
    reason = job.place if state == RunStatus.QUEUED else job.reason or job.place
    return RunEnd(job.run, state, job.outcome, reason, fresh=job.seconds > 0)
