"""`sweep`: do on this machine what is not done yet of some runs, and say how each stands.

Promised: a finished run is never done again; a run that failed for a reason that would repeat (FINAL) is left alone
unless `retry`; a run that somebody else has is waited for. When nothing is missing, no process is started and no file
is written. The first Ctrl-C (or SIGTERM, or a closed terminal) lets every worker save a checkpoint, the second kills
them; either way the same call goes on from there.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from plat.dispatch.api import ENDED
from plat.dispatch.local.board import Board, is_good
from plat.dispatch.local.dispatcher import STALL_AFTER, LocalDispatcher
from plat.dispatch.local.jobs import Job
from plat.dispatch.local.progress import Progress, Silent
from plat.errors import HomeError
from plat.runner import FINAL
from plat.store.home import Home, RunPaths
from plat.store.run_directory import create, read_config, run_state

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run

TICK = 0.2  # seconds between looks when nothing happens


@dataclass(frozen=True)
class RunEnd:
    """How a run stands after a sweep. `state`: done | failed | unknown | interrupted | missing; `fresh`: it ran now."""

    run: Run
    state: str
    outcome: str | None = None
    reason: str = ""
    fresh: bool = False


@dataclass
class SweepReport:
    """Every run of the sweep, by id, in the order asked for. `trouble`: what went wrong beside the runs."""

    ends: dict[str, RunEnd] = field(default_factory=dict)
    interrupted: bool = False
    seconds: float = 0.0
    trouble: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return dict(Counter(end.state for end in self.ends.values()))

    @property
    def exit_code(self) -> int:
        """130 interrupted, 3 when a run is not done, else 0."""
        return 130 if self.interrupted else 3 if any(end.state != "done" for end in self.ends.values()) else 0


def sweep(
    home: Home,
    runs: Sequence[Run],
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    experiments: Sequence[Experiment] = (),
    on_finished: Callable[[Run], None] | None = None,
    steal: bool = False,
    retry: bool = False,
    stall_after: float = STALL_AFTER,
) -> SweepReport:
    """Do what is missing.

    jobs         runs at once; by default as many as the cores allow
    experiments  the files that ask, noted in the meta.json of their runs
    on_finished  called here, in this process, after each run that ended or failed (for example to import it); what it
                 raises is noted in `trouble` and stops nothing
    steal        take over runs whose lease cannot be checked from here
    retry        try failed runs again whatever their class
    stall_after  seconds without an event after which a run is killed as stalled
    """
    started = time.monotonic()
    progress = progress or Silent()
    asked = _asked_by(experiments)
    report = SweepReport()
    missing = []
    for run in runs:
        report.ends[run.id] = end = _before(home, run, steal, retry)
        if end.state == "missing":
            missing.append(run)
        elif end.state == "done":
            _make(home, run, asked)
    if missing:
        left = {state: count for state, count in report.counts().items() if state != "missing"}
        _Sweep(home, missing, jobs, progress, report, asked, on_finished, steal, stall_after).go(left)
    report.seconds = time.monotonic() - started
    return report


def _before(home: Home, run: Run, steal: bool, retry: bool) -> RunEnd:
    """ "missing" means: to be done now."""
    found = run_state(home.run(run.id))
    if found.state == "done" or (found.state == "unknown" and not steal):
        reason = found.reason or ("held from elsewhere; take it over with --steal" if found.state == "unknown" else "")
        return RunEnd(run, found.state, found.outcome, reason)
    if found.state == "failed" and found.outcome in FINAL and not retry:
        return RunEnd(run, "failed", found.outcome, found.reason)
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


def _make_readable(home: Home, run: Run, asked: Mapping[str, list[Experiment]]) -> RunPaths:
    """The same for a run about to start: a config.yaml that cannot be read is written again from the run."""
    paths = _make(home, run, asked)
    try:
        read_config(paths)
    except HomeError:
        with contextlib.suppress(OSError):
            paths.config.unlink()
        return _make(home, run, asked)
    return paths


class _Sweep:
    """One pass over the missing runs."""

    def __init__(
        self,
        home: Home,
        missing: list[Run],
        jobs: int | None,
        progress: Progress,
        report: SweepReport,
        asked: Mapping[str, list[Experiment]],
        on_finished: Callable[[Run], None] | None,
        steal: bool,
        stall_after: float,
    ) -> None:
        self._dispatcher = LocalDispatcher(
            home, lambda run: _make_readable(home, run, asked), slots=jobs, steal=steal, stall_after=stall_after
        )
        self._board = Board(home, self._dispatcher.jobs)
        self._missing = missing
        self._progress = progress
        self._report = report
        self._on_finished = on_finished
        self._ended: deque[Run] = deque()
        self._told = False

    def go(self, before: dict[str, int]) -> None:
        done, failed = before.get("done", 0), sum(before.values()) - before.get("done", 0)
        dispatcher, progress, looked = self._dispatcher, self._progress, 0.0
        with contextlib.ExitStack() as stack:
            stack.callback(progress.end)
            stack.callback(dispatcher.close)
            interrupts = stack.enter_context(_interrupts(dispatcher))
            dispatcher.submit(self._missing)
            while dispatcher.active():
                for change in dispatcher.poll(0.0 if self._ended else TICK):
                    self._note(change.job, change)
                self._obey(len(interrupts))
                if self._ended:
                    self._call_back(self._ended.popleft())
                if time.monotonic() - looked >= TICK:
                    looked = time.monotonic()
                    views = self._board.views()
                    progress.update(views, self._board.totals(views, dispatcher.slots or 1, done, failed))
            while self._ended and len(interrupts) < 2:
                self._call_back(self._ended.popleft())
        if dispatcher.stopping:
            self._report.interrupted = True
        for run in self._missing:
            self._report.ends[run.id] = self._end_of(dispatcher.jobs[run.id])

    def _note(self, name: str, change: Any) -> None:
        job = self._dispatcher.jobs[name]
        ended = change.state == ENDED
        success = self._board.last(job)[1] if ended and job.kind == "run" else None
        self._progress.change(change, success=success, seconds=job.seconds if ended else 0.0)
        if ended and job.kind == "run" and change.outcome not in ("unknown", None):
            self._ended.append(job.run)

    def _obey(self, interrupts: int) -> None:
        if interrupts and not self._told:
            self._told = True
            self._dispatcher.stop()
            self._progress.message(
                "stopping: runs are saving their state (again to kill them); the same command goes on from there"
            )
        if interrupts >= 2:
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

    def _end_of(self, job: Job) -> RunEnd:
        if is_good(job):
            state = "done"
        elif job.state != ENDED:
            state = "missing"
        elif job.outcome in ("interrupted", "cancelled", "unknown"):
            state = "unknown" if job.outcome == "unknown" else "interrupted"
        else:
            state = "failed"
        return RunEnd(job.run, state, job.outcome, job.reason, fresh=job.seconds > 0)


@contextlib.contextmanager
def _interrupts(dispatcher: LocalDispatcher) -> Iterator[list[int]]:
    """A list that grows by one with every SIGINT, SIGTERM or SIGHUP meanwhile; from the first on nothing is started.

    Workers may get the same signal and be gone before we look: their runs must not be started again.
    """
    seen: list[int] = []

    def mark(number: int, frame: Any) -> None:
        seen.append(number)
        dispatcher.stopping = True

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays in force
            before[number] = signal.signal(number, mark)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
