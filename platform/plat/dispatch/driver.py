"""`sweep`: do what is not done yet of some runs, and say how each stands.

Promised: a finished run is never done again; a run that failed for a reason that would repeat (FINAL) is left alone
unless `retry`; a run that somebody else has is waited for. When nothing is missing, no process is started and no file
is written. The first Ctrl-C (or SIGTERM, or a closed terminal) lets every worker save a checkpoint, the second kills
them; either way the same call goes on from there.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from plat.dispatch import interrupts
from plat.dispatch.api import ENDED, Change, Dispatcher
from plat.dispatch.board import Board
from plat.dispatch.local.dispatcher import STALL_AFTER, LocalDispatcher
from plat.dispatch.progress import Progress, Silent
from plat.dispatch.report import RunEnd, SweepReport, end_of
from plat.runner.failures import FINAL
from plat.store.home import Home, RunPaths
from plat.store.run_directory.creation import create
from plat.store.run_directory.files import config_changed_since_result, set_damaged_config_aside
from plat.store.run_directory.state import run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

TICK = 0.2  # seconds between two updates of what is shown, and the longest wait for news


def sweep(
    home: Home,
    runs: Sequence[Run],
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    experiments: Sequence[Experiment] = (),
    before_runs: Callable[[], None] | None = None,
    on_finished: Callable[[Run], None] | None = None,
    steal: bool = False,
    retry: bool = False,
    stall_after: float = STALL_AFTER,
) -> SweepReport:
    """Do what is missing.

    jobs         runs at once; by default as many as the cores allow
    experiments  the files that ask, noted in the meta.json of their runs
    before_runs  called once, before the first run is started and while the workers' modules load; what it raises ends
                 the sweep before anything has run
    on_finished  called here, in this process, after each run that ended or failed (for example to import it); what it
                 raises is noted in `trouble` and stops nothing
    steal        take over runs whose lease cannot be checked from here
    retry        try failed runs again whatever their class
    stall_after  seconds without an event after which a run is killed as stalled
    """
    started = time.monotonic()
    asked = _asked_by(experiments)
    report = SweepReport()
    for run in runs:
        report.ends[run.id] = _before(home, run, steal, retry, report.trouble)
    for end in report.ends.values():
        if end.state == "done" and config_changed_since_result(home.run(end.run.id)):
            _make_readable(home, end.run, asked, report.trouble)
        elif end.state == "done":
            _make(home, end.run, asked)
    missing = [end.run for end in report.ends.values() if end.state == "missing"]
    if missing:
        dispatcher = LocalDispatcher(
            home,
            lambda run: _make_readable(home, run, asked, report.trouble),
            slots=jobs,
            steal=steal,
            stall_after=stall_after,
        )
        _Sweep(home, dispatcher, progress or Silent(), report, on_finished).go(missing, before_runs)
    report.seconds = time.monotonic() - started
    return report


def _before(home: Home, run: Run, steal: bool, retry: bool, trouble: list[str]) -> RunEnd:
    """How a run stands before the sweep; "missing" means that it is to be done now. Damage is added to `trouble`."""
    now = run_state(home.run(run.id))
    if now.damage:
        trouble.append(f"{run.name}: {now.damage} ({home.run(run.id).result}): it is set aside, and the run goes on")
    if now.state == "done" or (now.state == "unknown" and not steal):
        reason = now.reason or ("held from elsewhere; take it over with --steal" if now.state == "unknown" else "")
        return RunEnd(run, now.state, now.outcome, reason)
    if now.state == "failed" and now.outcome in FINAL and not retry:
        return RunEnd(run, "failed", now.outcome, now.reason)
    return RunEnd(run, "missing")


def _asked_by(experiments: Sequence[Experiment]) -> dict[str, list[Experiment]]:
    asked: dict[str, list[Experiment]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            asked.setdefault(run.id, []).append(experiment)
    return asked


def _make(home: Home, run: Run, asked: Mapping[str, list[Experiment]]) -> RunPaths:
    """The run's directory, with every file that asks for it noted."""
    paths = home.run(run.id)
    for experiment in asked.get(run.id, ()):
        paths = create(home, run, experiment.name, paper=experiment.paper)
    return paths if run.id in asked else create(home, run, "")


def _make_readable(home: Home, run: Run, asked: Mapping[str, list[Experiment]], trouble: list[str]) -> RunPaths:
    """The same, with a config.yaml that can be read: a damaged or edited one is set aside and written again."""
    with contextlib.suppress(OSError):  # then making the directory fails, too, and says why
        aside = set_damaged_config_aside(home.run(run.id))
        if aside is not None:
            trouble.append(f"{run.name}: config.yaml was damaged or edited; it is now {aside}, and was written again")
    return _make(home, run, asked)


class _Sweep:
    """Feeds the missing runs to a dispatcher, shows how they go, and calls back for each that ended."""

    def __init__(
        self,
        home: Home,
        dispatcher: Dispatcher,
        progress: Progress,
        report: SweepReport,
        on_finished: Callable[[Run], None] | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._progress = progress
        self._report = report
        self._on_finished = on_finished
        self._ended: deque[Run] = deque()
        self._stop_announced = False
        self._shown = 0.0
        counts = report.counts()
        done, missing = counts.get("done", 0), counts.get("missing", 0)
        self._board = Board(home, dispatcher.jobs, done_before=done, failed_before=len(report.ends) - done - missing)

    def go(self, missing: Sequence[Run], before_runs: Callable[[], None] | None) -> None:
        dispatcher = self._dispatcher
        with contextlib.ExitStack() as stack:
            stack.callback(self._progress.end)
            stack.callback(dispatcher.close)
            dispatcher.submit(missing)
            if before_runs is not None:
                before_runs()
            signals = stack.enter_context(interrupts.counted(dispatcher))
            while dispatcher.active():
                for change in dispatcher.poll(0.0 if self._ended else TICK):
                    self._note(change)
                while dispatcher.notices:
                    self._progress.message(dispatcher.notices.pop(0))
                self._obey(len(signals))
                if self._ended:
                    self._call_back(self._ended.popleft())
                self._show()
            while self._ended and len(signals) < 2:
                self._call_back(self._ended.popleft())
        self._report.interrupted = dispatcher.stopping
        for run in missing:
            self._report.ends[run.id] = end_of(dispatcher.jobs[run.id])

    def _note(self, change: Change) -> None:
        job = self._dispatcher.jobs[change.job]
        ended = change.state == ENDED
        success = self._board.last(job)[1] if ended and job.kind == "run" else None
        self._progress.change(change, success=success, seconds=job.seconds if ended else 0.0)
        if ended and job.kind == "run" and change.outcome not in ("unknown", None):
            self._ended.append(job.run)

    def _obey(self, interruptions: int) -> None:
        if interruptions and not self._stop_announced:
            self._stop_announced = True
            self._dispatcher.stop()
            self._progress.message(
                "stopping: runs are saving their state (again to kill them); the same command goes on from there"
            )
        if interruptions >= 2:
            self._dispatcher.kill()

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
