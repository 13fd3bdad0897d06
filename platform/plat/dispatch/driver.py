"""The driver feeds runs from a source to any dispatcher, shows how they go, and reports how each stands.

Promised, whatever executes the runs: those of `plat.dispatch.admission`; and when nothing is missing, no process is
started and no file is written but the index. The first Ctrl-C (or SIGTERM, or a closed terminal) asks the dispatcher to
stop, the second to kill; either way the same call goes on from there.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plat.dispatch import interrupts, registry
from plat.dispatch.admission import Admission
from plat.dispatch.api import ENDED, QUEUED, WAITING, Change, Dispatcher, Handle
from plat.dispatch.board import Board
from plat.dispatch.progress import Progress, Silent
from plat.dispatch.report import RunEnd, SweepReport, end_of
from plat.dispatch.source import FixedRuns, Source
from plat.store import live_sweeps
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

TICK = 0.2  # seconds between two updates of what is shown, and the longest wait for news


def sweep(
    home: Home,
    runs: Sequence[Run] | Source,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    on: str = registry.LOCAL,
    cluster: Sequence[str] = (),
    detach: bool = False,
    experiments: Sequence[Experiment] = (),
    before_runs: Callable[[], None] | None = None,
    on_finished: Callable[[Run], None] | None = None,
    steal: bool = False,
    retry: bool = False,
    stall_after: float | None = None,
) -> SweepReport:
    """Do what is missing.

    runs         a list, or a source that gives further runs as earlier ones end
    jobs         runs at once; by default as many as the place allows
    on           the name of a dispatcher; `cluster` has its settings (see `registry.Setting`)
    detach       return as soon as a scheduler has every run; SpecError where the runs need this process
    experiments  the files that ask, noted in the meta.json of their runs
    before_runs  called once, before the first run is started and while the workers' modules load; what it raises ends
                 the sweep before anything has run
    on_finished  called here, in this process, after each run that ended or failed (for example to import it); what it
                 raises is noted in `trouble` and stops nothing
    steal        take over runs whose lease cannot be checked from here
    retry        try failed runs again whatever their class
    stall_after  seconds without an event after which a run is killed as stalled; None: as its trainer says
    """
    started = time.monotonic()
    report = SweepReport(detached=detach)
    follows = registry.check_name(on) != registry.LOCAL
    admission = Admission(home, experiments, report.trouble, steal=steal, retry=retry, follows=follows)
    setting = registry.Setting(home, admission.make, jobs, steal, stall_after, tuple(cluster))
    source = FixedRuns(runs) if isinstance(runs, Sequence) else runs
    drive = _Drive(home, source, admission, progress or Silent(), report, before_runs, on_finished)
    drive.go(lambda: _opened(on, setting, detach))
    report.seconds = time.monotonic() - started
    return report


def _opened(on: str, setting: registry.Setting, detach: bool) -> Dispatcher:
    dispatcher = registry.open_dispatcher(on, setting)
    if detach and not dispatcher.detachable:
        raise registry.cannot_detach(on)
    return dispatcher


class _Drive:
    """One call of `sweep`: a source, a dispatcher that is opened when the first run is missing, and what is shown."""

    def __init__(
        self,
        home: Home,
        source: Source,
        admission: Admission,
        progress: Progress,
        report: SweepReport,
        before_runs: Callable[[], None] | None,
        on_finished: Callable[[Run], None] | None,
    ) -> None:
        self._home = home
        self._source = source
        self._admission = admission
        self._progress = progress
        self._report = report
        self._before_runs = before_runs
        self._on_finished = on_finished
        self._given: Counter[str] = Counter()  # how often the source has given a run that has not ended
        self._ended: deque[Run] = deque()
        self._stop_announced = False
        self._shown = 0.0

    def go(self, open_dispatcher: Callable[[], Dispatcher]) -> None:
        missing = self._admit()
        if not missing:
            return
        self._dispatcher = dispatcher = open_dispatcher()
        counts = self._report.counts()
        done = counts.get("done", 0)
        before = len(self._report.ends) - done - len(missing)
        self._board = Board(self._home, dispatcher.jobs, done_before=done, failed_before=before)
        with contextlib.ExitStack() as stack:
            stack.callback(self._progress.end)
            stack.callback(dispatcher.close)
            live = stack.enter_context(live_sweeps.announced(self._home))
            dispatcher.submit(missing)
            live.give(run.id for run in missing)
            if self._before_runs is not None:
                self._before_runs()
            signals = stack.enter_context(interrupts.counted(dispatcher))
            while self._goes_on(dispatcher):
                for change in dispatcher.poll(0.0 if self._ended else TICK):
                    self._note(change)
                while dispatcher.notices:
                    self._progress.message(dispatcher.notices.pop(0))
                self._obey(len(signals))
                self._leave_out(live.cancelled())
                if self._ended:
                    self._call_back(self._ended.popleft())
                if not dispatcher.stopping and (further := self._admit()):
                    dispatcher.submit(further)
                    live.give(run.id for run in further)
                self._show()
            while self._ended and len(signals) < 2:
                self._call_back(self._ended.popleft())
        self._report.interrupted = dispatcher.stopping
        for job in dispatcher.jobs.values():
            if job.kind == "run":
                self._report.ends[job.run.id] = end_of(job)

    def _goes_on(self, dispatcher: Dispatcher) -> bool:
        if self._report.detached and self._source.exhausted and dispatcher.handed_over():
            return False
        return dispatcher.active()

    def _admit(self) -> list[Run]:
        """Take what the source gives now; the runs of it that are to be done. The source hears of the others."""
        missing: list[Run] = []
        while given := self._source.next():
            new = []
            for run in given:
                self._given[run.id] += 1
                if self._given[run.id] == 1:  # else it is under way already
                    new.append(run)
            for end in self._admission.judge(new):
                self._report.ends[end.run.id] = end
                if end.state == "missing":
                    missing.append(end.run)
                else:
                    self._tell(end)
        return missing

    def _tell(self, end: RunEnd) -> None:
        """Tell the source that a run has ended, as often as the source has given it."""
        for _ in range(self._given.pop(end.run.id, 0)):
            self._source.ended(end)

    def _note(self, change: Change) -> None:
        job = self._dispatcher.jobs[change.job]
        ended = change.state == ENDED
        success = self._board.last(job)[1] if ended and job.kind == "run" else None
        self._progress.change(change, success=success, seconds=job.seconds if ended else 0.0)
        if not ended or job.kind != "run":
            return
        self._report.ends[job.run.id] = end_of(job)
        self._tell(self._report.ends[job.run.id])
        if change.outcome not in ("unknown", None):
            self._ended.append(job.run)

    def _obey(self, interruptions: int) -> None:
        if interruptions and not self._stop_announced:
            self._stop_announced = True
            self._dispatcher.stop()
            self._progress.message(self._dispatcher.farewell)
        if interruptions >= 2:
            self._dispatcher.kill()

    def _leave_out(self, run_ids: Sequence[str]) -> None:
        """Do not start these runs, which somebody has cancelled."""
        jobs = [self._dispatcher.jobs[run_id] for run_id in run_ids if run_id in self._dispatcher.jobs]
        self._dispatcher.cancel([Handle(job.run.id, job.id) for job in jobs if job.state in (QUEUED, WAITING)])

    def _call_back(self, run: Run) -> None:
        if self._on_finished is None:
            return
        try:
            self._on_finished(run)
        except Exception as error:
            text = f"{run.name}: {getattr(error, 'what', None) or f'{type(error).__name__}: {error}'}"
            self._report.trouble.append(text)
            self._progress.message(text)

    def _show(self) -> None:
        if time.monotonic() - self._shown >= TICK:
            self._shown = time.monotonic()
            views = self._board.views()
            self._progress.update(views, self._board.totals(views, self._dispatcher.slots or 1))
