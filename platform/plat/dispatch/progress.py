"""Live progress of a sweep: a table on a terminal, plain lines when piped.

[  12.3 s] started   digits-adam-large-s0-1a2b3c4d
[  12.9 s] starting  digits-adam-large-s0-1a2b3c4d: starting Ray
[  40.1 s] finished  digits-adam-large-s0-1a2b3c4d (28 s, success 43.0 %)
[  45.0 s] preparing   the data of digits (23 s, about 12 s left): data: step 851/1500
[  50.0 s] 12 of 72 done, 2 running, 58 to go, about 12.5 min left
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TextIO

from plat.characters import escaped, one_line
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, WAITING, Change, Job
from plat.dispatch.follower import Follower, View, laid_out
from plat.spec.composition.trainer_calls import iterations_of
from plat.store.coordination.preparations import progress_of
from plat.store.home import Home
from plat.store.run_directory.paths import AttemptPaths
from plat.store.run_directory.run_files import read_status
from plat.units import duration
from plat.words.outcomes import FINISHED, failure_class

SUMMARY_EVERY = 10.0  # seconds, when piped
RAREST = 64  # times this, if only few lines are wanted
REFRESH_EVERY = 0.25  # seconds, on a terminal


class Progress:
    """Display of a sweep's progress; this one shows nothing. All calls come from one thread."""

    def change(self, change: Change, *, measured: str = "", seconds: float = 0.0) -> None:
        """Show that a job changed its state; for an ended job, with what it measured and its duration in seconds."""
        self.message(describe(change, measured, seconds))

    def update(self, views: list[View], totals: Totals) -> None:
        """Show the current state; called several times a second."""

    def message(self, text: str) -> None:
        """Show one line to the user."""

    def end(self) -> None:
        """Finish: the sweep is over, or could not begin."""


class Plain(Progress):
    """Print what went wrong and summaries every SUMMARY_EVERY seconds.

    each  also print a line for each start, end and early message of a run. Otherwise summaries name the newest finished
          run, come ever more rarely, and one is the last line
    """

    def __init__(self, stream: TextIO | None = None, each: bool = True) -> None:
        self._stream, self._each = stream or sys.stdout, each
        self._started = self._summary_at = time.monotonic()
        self._times = 1  # SUMMARY_EVERY until the next summary
        self._newest = self._line = self._last_summary = ""
        self._notes: dict[str, str] = {}  # id of a run -> its last message before its first event

    def change(self, change: Change, *, measured: str = "", seconds: float = 0.0) -> None:
        if not self._each and change.kind == "run" and change.outcome == FINISHED:
            self._newest = "; " + " ".join(describe(change, measured, seconds).split())
        elif self._each or change.kind != "run" or change.state != RUNNING:
            super().change(change, measured=measured, seconds=seconds)

    def update(self, views: list[View], totals: Totals) -> None:
        for view in views if self._each else ():
            if view.kind == "run" and view.note and self._notes.get(view.id) != view.note:
                self._notes[view.id] = view.note
                self.message(f"{'starting':<11} {one_line(view.title)}: {one_line(view.note)}")
        self._line, now = summary(totals), time.monotonic()
        if now - self._summary_at < self._times * SUMMARY_EVERY:
            return
        self._summary_at, self._times = now, 1 if self._each else min(2 * self._times, RAREST)
        for view in views:
            if view.kind == "prepare":
                self.message(f"{'preparing':<11} {describe_preparation(view)}")
        if self._line != self._last_summary:
            self._last_summary = self._line
            self.message(self._line + self._newest)

    def message(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f} s] {text}", file=self._stream, flush=True)

    def end(self) -> None:
        if self._newest:
            self.message(self._line)


class Live(Progress):
    """A table of running jobs, redrawn in place; ends and messages scroll by above it.

    It moves the cursor, so it writes to the unfiltered terminal. Control characters in texts from elsewhere (exception
    messages, titles) are therefore escaped here. A closed terminal is no error: nothing more is written.
    """

    def __init__(self, console: Any) -> None:
        from rich.live import Live as RichLive

        self._console = console
        self._started = time.monotonic()
        self._drawn = 0.0
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def change(self, change: Change, *, measured: str = "", seconds: float = 0.0) -> None:
        self._drawn = 0.0  # the table is out of date: the next update draws it
        if change.state not in (RUNNING, WAITING):  # those are in the table
            super().change(change, measured=measured, seconds=seconds)

    def update(self, views: list[View], totals: Totals) -> None:
        now = time.monotonic()
        if now - self._drawn >= REFRESH_EVERY:
            self._drawn = now
            with contextlib.suppress(OSError):
                self._live.update(self._table(views, totals), refresh=True)

    def message(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._live.console.print(escaped(text), highlight=False, markup=False, emoji=False, soft_wrap=True)

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    def _table(self, views: list[View], totals: Totals) -> Any:
        from rich.console import Group
        from rich.text import Text

        header, rows = laid_out(views, self._console.width)
        totals_line = f"{summary(totals)} · {duration(time.monotonic() - self._started)} so far"
        lines = [Text(line, style="bold") for line in header] + [Text(line) for row in rows for line in row]
        return Group(*lines, *([Text()] if lines else []), Text(totals_line, style="dim italic"))


def choose(stream: TextIO | None = None, each: bool = True) -> Progress:
    """Return a live table if the stream (default stdout) is a terminal, else lines: of `each` start and end, or few."""
    stream = stream or sys.stdout
    if stream is not None and stream.isatty():
        from rich.console import Console

        return Live(Console(file=getattr(stream, "unfiltered", stream)))  # it moves the cursor
    return Plain(stream, each)


def describe(change: Change, measured: str, seconds: float) -> str:
    """Return one line about a change, for example `failed:oom  NAME (12 s): killed by the kernel`."""
    title = one_line(change.title)
    if change.state == RUNNING:
        return f"{'preparing' if change.kind == 'prepare' else 'started':<11} {title}"
    if change.state == WAITING:
        who = "another process is preparing it" if change.kind == "prepare" else "another process is running it"
        return f"{'waiting':<11} {title}: {who}"
    if change.state == QUEUED:
        why = f": {change.outcome}{', ' + change.reason if change.reason else ''}" if change.outcome else ""
        return f"{'again':<11} {title}{why}"
    word = "prepared" if change.kind == "prepare" and change.outcome == FINISHED else str(change.outcome)
    facts = [*([duration(seconds)] if seconds else []), *filter(None, [measured])]
    tail = f" ({', '.join(facts)})" if facts else ""
    return f"{word:<11} {title}{tail}{': ' + change.reason if change.reason else ''}"


def describe_preparation(view: View) -> str:
    """Return for example `the data of digits (23 s, about 12 s left): data: step 851/1500`."""
    facts = [view.state]
    if view.state != "elsewhere":
        facts = [duration(view.seconds), *([] if view.eta is None else [f"about {duration(view.eta)} left"])]
    return f"{one_line(view.title)} ({', '.join(facts)}){': ' + one_line(view.note) if view.note else ''}"


def summary(totals: Totals) -> str:
    """Return one line about the sweep: `12 of 72 done, 2 running, 58 to go, about 12.5 min left`."""
    parts = [f"{totals.done} of {totals.runs} done"]
    others = totals.done + totals.failed + totals.running + totals.waiting + totals.queued
    counts = {"failed": totals.failed, "interrupted": totals.runs - others}
    counts |= {"preparing": totals.preparing, "running": totals.running}
    counts |= {"elsewhere": totals.waiting, "to go": totals.queued}
    parts += [f"{count} {word}" for word, count in counts.items() if count]
    if totals.eta is not None:
        parts.append(f"about {duration(totals.eta)} left")
    elif totals.queued:
        parts.append("time left not known before a run has ended")
    return ", ".join(parts)


# The current state of a sweep for display: one `View` per running job, and the totals.

KNOWN_FROM = 0.05  # fraction of a preparation's steps after which its time left is estimated


@dataclass(frozen=True)
class Totals:
    """The numbers of runs of a sweep, in all and by state; `preparing` counts the preparations that run now.

    waiting  runs that another process has
    eta      expected seconds until the sweep ends; None if unknown
    """

    runs: int
    done: int
    failed: int
    running: int
    waiting: int
    queued: int
    preparing: int
    eta: float | None


class Board:
    """Follow the jobs of one dispatcher; `done_before` and `failed_before` count runs that had ended before it."""

    def __init__(self, home: Home, jobs: Mapping[str, Job], *, done_before: int = 0, failed_before: int = 0) -> None:
        self._home = home
        self._jobs = jobs
        self._done_before = done_before
        self._failed_before = failed_before
        self._follower = Follower(home)

    def views(self) -> list[View]:
        """Return a view of each job that runs now, here or elsewhere."""
        return [self._view(job) for job in self._jobs.values() if job.state in (RUNNING, WAITING)]

    def measured(self, job: Job) -> str:
        """Return the newest success and `script.metric` of a run, read to the end of its spool; "" if unknown."""
        attempt = self._follower.attempt(job.run.id)
        return attempt.measured if attempt else ""

    def totals(self, views: list[View], slots: int) -> Totals:
        """Return the counts of all jobs, given `views()`; `slots` is the number of jobs that run at the same time."""
        runs = [job for job in self._jobs.values() if job.kind == "run"]
        states = Counter(job.state for job in runs)
        failed = sum(1 for job in runs if job.state == ENDED and failure_class(job.outcome))
        return Totals(
            runs=len(runs) + self._done_before + self._failed_before,
            done=sum(1 for job in runs if job.has_result) + self._done_before,
            failed=failed + self._failed_before,
            running=states[RUNNING],
            waiting=states[WAITING],
            queued=states[QUEUED],
            preparing=sum(1 for job in self._jobs.values() if job.kind == "prepare" and job.state == RUNNING),
            eta=self._eta(runs, views, slots),
        )

    def _eta(self, runs: list[Job], views: list[View], slots: int) -> float | None:
        """Return the expected seconds until the sweep ends; None while runs are queued and none has ended.

        max(work / slots, longest time left of a running run), where work = sum of times left + queued runs * mean
        seconds of ended runs.
        """
        # The first iterations of a run say little: they include validation and the start of workers.
        lengths = [job.seconds for job in runs if job.state == ENDED and job.seconds > 0]
        rest = [view.eta for view in views if view.kind == "run" and view.eta is not None]
        queued = sum(1 for job in runs if job.state == QUEUED)
        if (queued and not lengths) or not (queued or rest):
            return None
        work = sum(rest) + (queued * sum(lengths) / len(lengths) if queued else 0.0)
        return max([work / max(1, slots), *rest])

    def _view(self, job: Job) -> View:
        seconds = time.monotonic() - job.started if job.started else 0.0
        state = "elsewhere" if job.state == WAITING else "running"
        if job.kind == "prepare":
            note, done, of = progress_of(self._home, job.id)
            eta = seconds * (of / done - 1) if done and of and of * KNOWN_FROM <= done <= of else None
            state = "preparing" if job.state == RUNNING else state
            return View(job.id, job.title, state, done, of, seconds=seconds, eta=eta, note=note, kind=job.kind)
        iterations = iterations_of(job.run.trainer, job.run.config)
        view = View(job.id, job.title, state, iterations=iterations, seconds=seconds)
        attempt = self._follower.attempt(job.run.id)
        if attempt is None:
            return view
        note = read_status(AttemptPaths(attempt.path.parent)) if attempt.step is None else ""
        state = "starting" if note and job.state == RUNNING else state
        eta = attempt.seconds_left(iterations)
        return replace(view, state=state, step=attempt.step, success=attempt.success, eta=eta, note=note)
