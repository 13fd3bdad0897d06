"""The driver feeds runs from a source to any dispatcher, shows how they go, and reports how each stands.

Promised, whatever executes the runs: those of `plat.dispatch.admission`; and when nothing is missing, no process is
started and no file is written but the index. The first Ctrl-C (or SIGTERM, or a closed terminal) asks the dispatcher to
stop, the second to kill; either way the same call goes on from there.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plat.dispatch import interrupts, registry
from plat.dispatch.admission import Admission
from plat.dispatch.api import ENDED, QUEUED, WAITING, Change, Dispatcher, Handle
from plat.dispatch.board import Board
from plat.dispatch.feed import Feed
from plat.dispatch.progress import Progress, Silent
from plat.dispatch.report import SweepReport, end_of
from plat.dispatch.source import FixedRuns, Source
from plat.store import live_sweeps
from plat.store.home import Home
from plat.store.live_sweeps import LiveSweep

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

TICK = 0.2  # seconds between two updates of what is shown, and the longest wait for changes


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
    progress = progress or Silent()
    report = SweepReport(detached=detach)
    follows = registry.check_name(on) != registry.LOCAL
    admission = Admission(home, experiments, report.trouble, steal=steal, retry=retry, follows=follows)
    setting = registry.Setting(home, admission.make, jobs, steal, stall_after, tuple(cluster))
    feed = Feed(FixedRuns(runs) if isinstance(runs, Sequence) else runs, admission, report)
    try:
        missing = feed.next()
        if missing:
            dispatcher = _opened(on, setting, detach)
            _Drive(home, dispatcher, feed, progress, report, on_finished).do(missing, before_runs)
    finally:
        progress.end()
    report.seconds = time.monotonic() - started
    return report


def _opened(on: str, setting: registry.Setting, detach: bool) -> Dispatcher:
    dispatcher = registry.open_dispatcher(on, setting)
    if detach and not dispatcher.detachable:
        raise registry.cannot_detach(on)
    return dispatcher


class _Drive:
    """Gives the runs of one sweep to a dispatcher; shows and notes what becomes of them."""

    def __init__(
        self,
        home: Home,
        dispatcher: Dispatcher,
        feed: Feed,
        progress: Progress,
        report: SweepReport,
        on_finished: Callable[[Run], None] | None,
    ) -> None:
        self._home = home
        self._dispatcher = dispatcher
        self._feed = feed
        self._progress = progress
        self._report = report
        self._on_finished = on_finished
        counts = report.counts()
        done = counts.get("done", 0)
        failed = len(report.ends) - done - counts.get("missing", 0)
        self._board = Board(home, dispatcher.jobs, done_before=done, failed_before=failed)
        self._finished: deque[Run] = deque()  # runs that have ended and whose `on_finished` is still to be called
        self._stop_announced = False
        self._shown = 0.0

    def do(self, missing: Sequence[Run], before_runs: Callable[[], None] | None) -> None:
        """Do these runs, and those that the source gives as they end."""
        with contextlib.ExitStack() as stack:
            stack.callback(self._dispatcher.close)
            live = stack.enter_context(live_sweeps.announced(self._home))
            self._submit(missing, live)
            if before_runs is not None:
                before_runs()
            signals = stack.enter_context(interrupts.recorded(self._dispatcher))
            while self._goes_on():
                self._advance(live, interruptions=len(signals))
            self._stop_if_interrupted(len(signals))  # where a signal came just before the loop ended
            while self._finished and len(signals) < 2:
                self._call_back(self._finished.popleft())
        self._report.interrupted = self._dispatcher.stopping
        for job in self._dispatcher.jobs.values():
            if job.kind == "run":
                self._report.ends[job.run.id] = end_of(job)

    def _goes_on(self) -> bool:
        if self._report.detached and self._feed.exhausted and self._dispatcher.handed_over():
            return False
        return self._dispatcher.active()

    def _advance(self, live: LiveSweep, interruptions: int) -> None:
        """One round: take in what has changed, do what was asked for, submit what the source gives, show it all."""
        for change in self._dispatcher.poll(0.0 if self._finished else TICK):
            self._note(change)
        while self._dispatcher.notices:
            self._progress.message(self._dispatcher.notices.pop(0))
        self._stop_if_interrupted(interruptions)
        self._cancel(live.cancelled())
        if self._finished:
            self._call_back(self._finished.popleft())
        if not self._dispatcher.stopping and (further := self._feed.next()):
            self._submit(further, live)
        self._show()

    def _submit(self, runs: Sequence[Run], live: LiveSweep) -> None:
        self._dispatcher.submit(runs)
        live.give(run.id for run in runs)

    def _note(self, change: Change) -> None:
        """Show a change; when a run has ended, let the source know."""
        job = self._dispatcher.jobs[change.job]
        ended = change.state == ENDED
        success = self._board.last(job)[1] if ended and job.kind == "run" else None
        self._shown = 0.0  # what is shown is out of date
        self._progress.change(change, success=success, seconds=job.seconds if ended else 0.0)
        if not ended or job.kind != "run":
            return
        self._feed.ended(end_of(job))
        if change.outcome not in ("unknown", None):
            self._finished.append(job.run)

    def _stop_if_interrupted(self, interruptions: int) -> None:
        """Let runs save and stop on the first interruption, kill them on the second."""
        if interruptions and not self._stop_announced:
            self._stop_announced = True
            self._dispatcher.stop()
            self._progress.message(self._dispatcher.farewell)
        if interruptions >= 2:
            self._dispatcher.kill()

    def _cancel(self, run_ids: Sequence[str]) -> None:
        """Do not start these runs, which somebody has cancelled."""
        jobs = [self._dispatcher.jobs[run_id] for run_id in run_ids if run_id in self._dispatcher.jobs]
        self._dispatcher.cancel([Handle(job.run.id, job.id) for job in jobs if job.state in (QUEUED, WAITING)])

    def _call_back(self, run: Run) -> None:
        """Call `on_finished`; what it raises is shown and noted, and stops nothing."""
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
