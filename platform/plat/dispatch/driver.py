"""Feed runs from a source to a dispatcher, show their progress, and report how each ends.

Keeps the promises of `plat.dispatch.admission` with every dispatcher. If nothing is missing, no process is started and
no file but the index is written. The first Ctrl-C (or SIGTERM, or a closed terminal) stops the dispatcher, the second
kills its runs; in both cases the same call resumes later.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.characters import without_numbers
from plat.dispatch import registry
from plat.dispatch.admission import Admission
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Change, Dispatcher, Handle
from plat.dispatch.feed import Feed, FixedRuns, Source
from plat.dispatch.progress import Board, Progress
from plat.dispatch.setting import Setting, cannot_detach
from plat.dispatch.sweep_ends import RunEnd, SweepReport, end_of
from plat.plugins.plugin_code import FILES
from plat.processes.own_process import handling
from plat.spec.identity.run_identity import named_code, snapshot
from plat.store.coordination import live_sweeps
from plat.store.coordination.live_sweeps import LiveSweep
from plat.store.home import Home
from plat.units import counted
from plat.words.outcomes import CANCELLED, NO_METRIC, NOT_KNOWN, failure_class, is_failure
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run

LIVE_EVERY = 10.0  # seconds between two calls of `on_running`
TICK = 0.2  # seconds between two updates of the display, and the longest wait for changes


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
    on_running: Callable[[Sequence[Run]], None] | None = None,
    steal: bool = False,
    retry: bool = False,
    stall_after: float | None = None,
    fail_fast: bool = False,
    opened: Callable[[Setting], Dispatcher] | None = None,
) -> SweepReport:
    """Execute the runs that `Admission.judge` finds MISSING, and return the state of all runs at the end.

    runs         a list, or a source that gives further runs as earlier ones end
    jobs         number of runs at the same time; None: as many as the dispatcher allows
    on           name of a dispatcher; `cluster` has its settings (see `Setting`)
    detach       return as soon as a scheduler has every run; SpecError if the runs need this process
    experiments  the experiments that request the runs, noted in the meta.json of each run
    before_runs  called once, while the workers' modules load and before the first run starts, unless no run is to be
                 executed; an exception ends the sweep before anything has run
    on_finished  called in this process after each executed run that ended, also if it failed, was cancelled or refused
                 (for example to import it); an exception is noted in `trouble` and stops nothing
    on_running   called every LIVE_EVERY seconds with the runs that execute; an exception is shown and ends the calls
    steal        take over runs whose lease cannot be checked from this machine
    retry        retry failed runs, whatever their failure class
    stall_after  seconds without an event after which a run is killed as stalled; None: the trainer's default
    fail_fast    start nothing more once the first runs fail in a way that the others will too (see `FailFast`)
    opened       opens a dispatcher in place of that of `on`; it is opened even if no run is missing yet

    Raises SpecError if no dispatcher is named `on`, and SpecError or SchedulerError if it cannot be used here. After
    Ctrl-C, SIGTERM or SIGHUP during the runs it returns normally, with `interrupted` set in the report.
    """
    progress = progress or Progress()
    report = SweepReport(detached=detach)
    follows = not registry.find_dispatcher(on).on_this_machine
    admission = Admission(home, experiments, report.trouble, steal=steal, retry=retry, follows=follows)
    setting = Setting(home, admission.make, jobs, steal, stall_after, tuple(cluster))
    feed = Feed(FixedRuns(runs) if isinstance(runs, Sequence) else runs, admission, report)
    try:
        missing = feed.next()
        if missing or opened:
            dispatcher = opened(setting) if opened else registry.open_dispatcher(on, setting)
            if detach and not dispatcher.detachable:
                raise cannot_detach()
            _Drive(home, dispatcher, feed, progress, report, on_finished, on_running, fail_fast).do(
                missing, before_runs
            )
    finally:
        progress.end()
    return report


@dataclass
class _Drive:
    """Give the runs of one sweep to a dispatcher; show and record their changes."""

    home: Home
    dispatcher: Dispatcher
    feed: Feed
    progress: Progress
    report: SweepReport
    on_finished: Callable[[Run], None] | None
    on_running: Callable[[Sequence[Run]], None] | None
    fail_fast: bool

    def __post_init__(self) -> None:
        done = sum(end.state == RunStatus.DONE for end in self.report.ends.values())
        failed = sum(is_failure(end.outcome) for end in self.report.ends.values())
        self._board = Board(self.home, self.dispatcher.jobs, done_before=done, failed_before=failed)
        self._finished: deque[Run] = deque()  # runs that have ended and whose `on_finished` is still to be called
        self._signals: list[int] = []  # with which the user ends the sweep
        self._stop_announced = False
        self._shown, self._mirrored = 0.0, time.monotonic()
        self._failures = FailFast()

    def do(self, missing: Sequence[Run], before_runs: Callable[[], None] | None) -> None:
        """Execute these runs, and those that the source gives as they end."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.dispatcher.close)
            live = stack.enter_context(live_sweeps.announced(self.home))
            self._submit(missing, live)
            if before_runs is not None:
                before_runs()
            # Ctrl-C, SIGTERM, a closed terminal
            stack.enter_context(handling(self._note_signal, signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
            while self._goes_on():
                self._advance(live)
            self._stop_if_interrupted()  # a signal may have arrived just before the loop ended
            while self._finished and len(self._signals) < 2:
                self._call_back(self._finished.popleft())
        self.report.interrupted = self.dispatcher.stopping
        for job in self.dispatcher.jobs.values():
            if job.kind == "run":
                self.report.ends[job.run.id] = end_of(job)

    def _goes_on(self) -> bool:
        if self.report.detached and self.feed.exhausted and self.dispatcher.handed_over():
            return False
        return self.dispatcher.active()

    def _advance(self, live: LiveSweep) -> None:
        """Poll for changes, stop or cancel if requested, submit further runs of the source, and update the display."""
        for change in self.dispatcher.poll(0.0 if self._finished else TICK):
            self._note(change)
        while self.dispatcher.notices:
            self.progress.message(self.dispatcher.notices.pop(0))
        self._stop_if_interrupted()
        self._cancel(live.cancelled())
        if self._finished:
            self._call_back(self._finished.popleft())
        self._call_while_running()
        if not self.dispatcher.stopping and not self.report.given_up and (further := self.feed.next()):
            self._submit(further, live)
        self._show()

    def _submit(self, runs: Sequence[Run], live: LiveSweep) -> None:
        for run in {named_code(run.identity).get(FILES): run for run in runs}.values():
            snapshot(self.home.code, run.trainer, run.config, run.identity)  # an edit from now on reaches none of them
        self.dispatcher.submit(runs)
        live.give(run.id for run in runs)

    def _note(self, change: Change) -> None:
        """Show a change; when a run has ended, report its end to the source."""
        job = self.dispatcher.jobs[change.job]
        ended = change.state == ENDED
        measured = self._board.measured(job) if ended and job.kind == "run" else ""
        self._shown = 0.0  # the display is out of date
        if not (self.report.given_up and change.outcome == CANCELLED):
            self.progress.change(change, measured=measured, seconds=job.seconds if ended else 0.0)
        if not ended or job.kind != "run":
            return
        end = end_of(job)
        self.feed.ended(end)
        if self.fail_fast and not self.report.given_up:
            self._give_up(self._failures.verdict(end))
        if change.outcome not in (NOT_KNOWN, None):
            self._finished.append(job.run)

    def _give_up(self, why: str) -> None:
        """Start nothing more if there is a reason; runs that have started go on."""
        if why:
            self.report.given_up = why
            self.progress.message(f"nothing more is started: {why}")
            self._cancel([job.id for job in self.dispatcher.jobs.values() if job.kind == "run"])

    def _note_signal(self, number: int, frame: Any) -> None:
        """Note a signal with which a user ends the sweep; the first one prevents further starts."""
        self._signals.append(number)
        # Set here, not in `_advance`: the signal may have ended workers too, and their runs must not start again.
        self.dispatcher.stopping = True

    def _stop_if_interrupted(self) -> None:
        """Let runs save and stop on the first interruption; kill them on the second."""
        if self._signals and not self._stop_announced:
            self._stop_announced = True
            self.dispatcher.stop()
            self.progress.message(self.dispatcher.farewell)
        if len(self._signals) >= 2:
            self.dispatcher.kill()

    def _cancel(self, run_ids: Sequence[str]) -> None:
        """Drop these cancelled runs if they have not started."""
        jobs = [self.dispatcher.jobs[run_id] for run_id in run_ids if run_id in self.dispatcher.jobs]
        self.dispatcher.cancel([Handle(job.run.id, job.id) for job in jobs if job.state in (QUEUED, WAITING)])

    def _call_back(self, run: Run) -> None:
        """Call `on_finished`; show and note an exception, which stops nothing."""
        if self.on_finished is None:
            return
        try:
            self.on_finished(run)
        except Exception as error:
            text = f"{run.name}: {getattr(error, 'what', None) or f'{type(error).__name__}: {error}'}"
            self.report.trouble.append(text)
            self.progress.message(text)

    def _call_while_running(self) -> None:
        """Call `on_running` every LIVE_EVERY seconds; the first exception is shown and ends the calls."""
        if self.on_running is None or time.monotonic() - self._mirrored < LIVE_EVERY:
            return
        running = [job.run for job in self.dispatcher.jobs.values() if job.kind == "run" and job.state == RUNNING]
        try:
            self.on_running(running)
        except Exception as error:
            text = f"live curves end: {getattr(error, 'what', None) or f'{type(error).__name__}: {error}'}"
            self.progress.message(text)
            self.on_running = None
        self._mirrored = time.monotonic()

    def _show(self) -> None:
        if time.monotonic() - self._shown >= TICK:
            self._shown = time.monotonic()
            views = self._board.views()
            self.progress.update(views, self._board.totals(views, self.dispatcher.slots or 1))


# Decide when a sweep should start nothing more: the script logs no metric, or runs fail alike.

ALIKE = 3  # failures of one kind after which nothing more is started
_OF_THE_SETTING = ("oom", "nan", "timeout", "preempted", "node")  # the next run, with other values, may well succeed


class FailFast:
    """The failures of one sweep. Two are alike if they differ in numbers only.

    Failures that depend on a run's values or on its machine (no memory, NaN, too slow, a lost node) do not count.
    """

    def __init__(self) -> None:
        self._alike: Counter[str] = Counter()

    def verdict(self, end: RunEnd) -> str:
        """Note how a run has ended; return why nothing more should start, or "" to go on."""
        kind = failure_class(end.outcome)
        if kind is None or kind in _OF_THE_SETTING:
            return ""
        reason = " ".join(end.reason.split())
        if reason.startswith(NO_METRIC):
            return f"{end.run.name}: {reason}"
        key = f"{kind}: {without_numbers(reason)}"
        self._alike[key] += 1
        if self._alike[key] < ALIKE:
            return ""
        return f"{counted(self._alike[key], 'run')} failed alike; the last one, {end.run.name}: {reason}"
