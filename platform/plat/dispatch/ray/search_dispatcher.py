"""Hand a whole search to Ray and follow its runs: the driver of the search asks for the trials and submits their runs.

A search is a submission of one task, which has no run. So exactly one of several commands submits it, and a lost driver
on a cluster is replaced, as that of a sweep. The submissions of its trials name it as their "search".
"""

from __future__ import annotations

from typing import Any

from plat.dispatch.decisions import Decision
from plat.dispatch.dispatcher import ENDED, Job, SchedulerError
from plat.dispatch.ray.tune_dispatcher import TuneDispatcher
from plat.dispatch.setting import SearchCall, Setting
from plat.errors import PlatError, SpecError
from plat.store.coordination.submissions import Record, Submission, newest_records, open_record
from plat.store.disk.durable import create, read_json, to_checked_json
from plat.store.run_directory.attempts import requested_end
from plat.store.run_directory.state import run_state
from plat.trainer.resources import Resources
from plat.words.outcomes import INTERRUPTED, is_failure
from plat.words.states import RunStatus

ERROR = "error.json"  # in the folder of a search: what, where and fix of the error that ended it


class SearchDispatcher(TuneDispatcher):
    """Dispatcher of one search. The runs that it is given are those that the search has begun: it submits none."""

    driver = "plat.search.ray.tuned_search"

    def __init__(self, setting: Setting, search: SearchCall) -> None:
        super().__init__(setting)
        self._search = search
        self._record: Record | None = None  # of the search
        self._is_over = False
        if self.detachable:
            self.farewell = "stopped following: the search goes on in Ray, and the same command follows it again"

    def active(self) -> bool:
        """Return True while the search goes on; after `stop`, while runs of a private Ray are saving."""
        if self.stopping:
            return self._private is not None and not self._private.ended
        return not self._is_over or any(job.state != ENDED for job in self.jobs.values())

    def _own_records(self) -> dict[str, Record]:
        ours = self._record.submission.name if self._record else ""
        return {job: record for job, record in self._followed.items() if record.facts.get("search") == ours}

    def _connect(self) -> None:
        if self._private is None:  # one that has ended is not replaced
            super()._connect()

    def _typical_needs(self) -> list[Resources]:
        return [self._settings.resources(self._search.resources)]

    def _further_facts(self) -> dict[str, Any]:
        return {
            "driver": self.driver,
            "jobs": self.slots,
            "nodes": self._cluster.nodes,
            "settings": self._setting.cluster,
            "study": self._search.name,
            "file": self._search.file,
            "overrides": list(self._search.overrides),
        }

    def _hand_over_free(self) -> None:
        """Submit the search if nobody has; follow the runs that a task has, and end those that none has any more."""
        if self._record is None:
            self._record = self._submitted()
            self.notices += _other_settings(self._record, self._search)
        if self._record is not None and not self._record.is_open:
            self._is_over = True
            _raise_error(self._record.submission)
        jobs, self._to_submit = self._to_submit, []
        for job in jobs:
            paths = self.home.run(job.run.id)
            record, now = open_record(paths), run_state(paths)
            if record is not None and now.state != RunStatus.DONE:
                self._adopt(job, record)
            elif now.outcome is None and paths.cancel.exists():  # asked to end before it began
                self._apply(job, Decision(ENDED, *requested_end(paths)))
            else:
                self._apply(job, Decision(ENDED, now.outcome or INTERRUPTED, now.reason))

    def _follow(self, job: Job) -> None:
        """Update a run that a task has; one whose task is over is looked at again by `_hand_over_free`."""
        record = self._followed.get(job.id)
        if record is not None and not record.is_open:
            del self._followed[job.id]
            self._to_submit.append(job)
            return
        super()._follow(job)

    def _submitted(self) -> Record | None:
        """Return the record of the search, submitting it if there is none that is open; None: try again later."""
        record = newest_records(self.home).get(self._search.id)
        if record is not None and record.is_open:
            return record
        [needed] = self._typical_needs()
        problem = "" if self._settings.elastic else self._cluster.never_fits(needed)
        if problem:
            raise SchedulerError(f"the search cannot run there: {problem}", certain=True, where=self._search.file)
        return self._submit([[self._search]]).get(self._search.id)


def _other_settings(record: Record | None, search: SearchCall) -> list[str]:
    """Say so if the search that goes on was begun with other settings on the command line."""
    if record is None or record.facts["overrides"] == list(search.overrides):
        return []
    begun = " ".join(record.facts["overrides"]) or "no settings"
    return [f"this follows the search that goes on, with {begun}; when it has ended, give this command again"]


def note_error(submission: Submission, error: PlatError) -> None:
    """Keep the error that has ended a search, for the command that follows it."""
    facts = {"what": error.what, "where": error.where, "fix": error.fix}
    create(submission.root / ERROR, to_checked_json(facts))


def _raise_error(submission: Submission) -> None:
    """Raise the error that ended a search, if one did."""
    if (error := read_json(submission.root / ERROR)) is not None:
        raise SpecError(error["what"], where=error["where"], fix=error["fix"])
    end = submission.end(0)
    if is_failure(end["outcome"]):
        raise SchedulerError(
            f"the search has lost its driver: {end['reason']}",
            certain=True,
            where=str(submission.home.logs / "ray.txt"),
            fix="give the same command again: it goes on with the search",
        )
