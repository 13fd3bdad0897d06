"""How the runs of a sweep stand when it ends."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from plat.dispatch.api import ENDED, REFUSED, Job
from plat.outcomes import ENDED_ON_REQUEST, INTERRUPTED

if TYPE_CHECKING:
    from plat.spec.runs import Run


@dataclass(frozen=True)
class RunEnd:
    """How a run stands after a sweep. `fresh`: it ran now.

    state  done | queued (a scheduler has it, `reason` says where) | failed | unknown | interrupted | missing
    """

    run: Run
    state: str
    outcome: str | None = None
    reason: str = ""
    fresh: bool = False


@dataclass
class SweepReport:
    """Every run of the sweep, by id, in the order asked for.

    trouble        what went wrong beside the runs
    import_failed  a run was found damaged when it was brought into the store
    detached       the sweep was to leave its runs to a scheduler: then those that are queued are as they should be
    """

    ends: dict[str, RunEnd] = field(default_factory=dict)
    interrupted: bool = False
    seconds: float = 0.0
    trouble: list[str] = field(default_factory=list)
    import_failed: bool = False
    detached: bool = False

    def counts(self) -> dict[str, int]:
        return dict(Counter(end.state for end in self.ends.values()))

    @property
    def exit_code(self) -> int:
        """130 interrupted, 3 when a run is damaged or is not as it should be (done, or queued if detached), else 0."""
        if self.interrupted:
            return 130
        well = ("done", "queued") if self.detached else ("done",)
        return 3 if self.import_failed or any(end.state not in well for end in self.ends.values()) else 0


def end_of(job: Job) -> RunEnd:
    """How a run stands according to its job."""
    if job.has_result:
        state = "done"
    elif job.state != ENDED:
        state = "queued" if job.place else "missing"
    elif job.outcome == REFUSED:
        state = "missing"
    elif job.outcome in (INTERRUPTED, *ENDED_ON_REQUEST):
        state = "interrupted"
    else:
        state = "unknown" if job.outcome == "unknown" else "failed"
    return RunEnd(job.run, state, job.outcome, job.reason or job.place, fresh=job.seconds > 0)
