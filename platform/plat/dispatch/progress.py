"""Live progress of a sweep: a table on a terminal, plain lines when piped.

[  12.3 s] started   sokoban-grpo-3b-s0-1a2b3c4d
[  12.9 s] starting  sokoban-grpo-3b-s0-1a2b3c4d: starting Ray
[  40.1 s] finished  sokoban-grpo-3b-s0-1a2b3c4d (28 s, success 43.0 %)
[  45.0 s] preparing   base model for qwen2.5-3b (23 s, about 12 s left): base model: step 851/1500, loss 0.5
[  50.0 s] 12 of 72 done, 2 running, 58 to go, about 12.5 min left
"""

from __future__ import annotations

import contextlib
import sys
import textwrap
import time
from typing import Any, Literal, Protocol, TextIO

from plat.dispatch.api import QUEUED, RUNNING, WAITING, Change
from plat.dispatch.board import Totals, View
from plat.text import columns_of, escaped, one_line, wrapped
from plat.units import duration, percent

SUMMARY_EVERY = 10.0  # seconds, when piped
REFRESH_EVERY = 0.25  # seconds, on a terminal
COLUMNS = ("run", "state", "iteration", "success", "time", "left")


class Progress(Protocol):
    """Shows how a sweep proceeds. All calls come from one thread."""

    def change(self, change: Change, *, success: float | None = None, seconds: float = 0.0) -> None:
        """A job went to another state; of one that ended, its success and how long it took."""

    def update(self, views: list[View], totals: Totals) -> None:
        """How everything stands now; called several times a second."""

    def message(self, text: str) -> None:
        """A line for whoever watches."""

    def end(self) -> None:
        """The sweep is over, or could not begin."""


class Silent:
    """Shows nothing."""

    def change(self, change: Change, *, success: float | None = None, seconds: float = 0.0) -> None:
        pass

    def update(self, views: list[View], totals: Totals) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


class Plain:
    """One line per start and end, and for what a run says before its first event; every SUMMARY_EVERY seconds how the
    preparations go, and a summary if it is new."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._started = time.monotonic()
        self._summary_at = time.monotonic()
        self._last_summary = ""
        self._notes: dict[str, str] = {}  # title of a run -> what it said last before its first event

    def change(self, change: Change, *, success: float | None = None, seconds: float = 0.0) -> None:
        self.message(describe(change, success, seconds))

    def update(self, views: list[View], totals: Totals) -> None:
        for view in views:
            if is_starting(view) and self._notes.get(view.title) != view.note:
                self._notes[view.title] = view.note
                self.message(f"{'starting':<11} {one_line(view.title)}: {one_line(view.note)}")
        now = time.monotonic()
        if now - self._summary_at < SUMMARY_EVERY:
            return
        self._summary_at = now
        for view in views:
            if view.kind == "prepare":
                self.message(f"{'preparing':<11} {describe_preparation(view)}")
        line = summary(totals)
        if line != self._last_summary:
            self._last_summary = line
            self.message(line)

    def message(self, text: str) -> None:
        print(f"[{time.monotonic() - self._started:7.1f} s] {text}", file=self._stream, flush=True)

    def end(self) -> None:
        pass


class Live:
    """A table of what runs, redrawn in place; ends and messages scroll by above it.

    It moves the cursor, so it writes to the unfiltered terminal; every text from elsewhere (the message of an
    exception, a title) therefore has its control characters spelled out here.

    A terminal that is gone (closed while runs save their state) is written to no more, and is no error.
    """

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = console or Console()
        self._started = time.monotonic()
        self._drawn = 0.0
        self._live = RichLive(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def change(self, change: Change, *, success: float | None = None, seconds: float = 0.0) -> None:
        self._drawn = 0.0  # the table still calls a run that has ended running: the next update draws it
        if change.state not in (RUNNING, WAITING):  # those are in the table
            self.message(describe(change, success, seconds))

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
        from rich import box
        from rich.table import Table
        from rich.text import Text

        caption = f"{summary(totals)} · {duration(time.monotonic() - self._started)} so far"
        rows = [_cells(view) for view in views]
        widths = [max(columns_of(row[column]) for row in [COLUMNS, *rows]) for column in range(len(COLUMNS))]
        room = max(10, self._console.width - sum(widths[1:]) - 3 * (len(COLUMNS) - 1) - 2)  # blanks between and beside
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", pad_edge=False)
        for name, width in zip(COLUMNS, widths, strict=True):
            side: Literal["left", "right"] = "left" if name in ("run", "state") else "right"
            table.add_column(name, justify=side, min_width=min(width, room) if name == "run" else width, no_wrap=True)
        for view, (title, *others) in zip(views, rows, strict=True):
            lines = wrapped(title, room)
            if is_starting(view):
                words = textwrap.wrap(one_line(view.note), room - 2)
                lines += [f"  {part}" for line in words for part in wrapped(line, room - 2)]
            table.add_row(Text("\n".join(lines)), *map(Text, others))
        return table


def is_starting(view: View) -> bool:
    """Whether it is a run that has not logged anything yet, and says what it is doing."""
    return view.kind == "run" and bool(view.note)


def _cells(view: View) -> tuple[str, ...]:
    """One job as texts, in the order of COLUMNS."""
    running = "preparing" if view.kind == "prepare" else "starting" if is_starting(view) else "running"
    state = {WAITING: "elsewhere"}.get(view.state, running)
    step = "" if view.step is None else f"{view.step}/{view.iterations}" if view.iterations else str(view.step)
    left = "" if view.eta is None else duration(view.eta)
    return (one_line(view.title), state, step, percent(view.success), duration(view.seconds), left)


def choose(stream: TextIO | None = None) -> Progress:
    """A live table when the stream (stdout) is a terminal, plain lines otherwise."""
    stream = stream or sys.stdout
    if stream is not None and stream.isatty():
        from rich.console import Console

        return Live(Console(file=getattr(stream, "unfiltered", stream)))  # it moves the cursor
    return Plain(stream)


def describe(change: Change, success: float | None, seconds: float) -> str:
    """One line about one change, e.g. `failed:oom  NAME (12 s): killed by the kernel`."""
    title = one_line(change.title)
    if change.state == RUNNING:
        return f"{'preparing' if change.kind == 'prepare' else 'started':<11} {title}"
    if change.state == WAITING:
        who = "somebody else is preparing it" if change.kind == "prepare" else "somebody else is running it"
        return f"{'waiting':<11} {title}: {who}"
    if change.state == QUEUED:
        why = f": {change.outcome}{', ' + change.reason if change.reason else ''}" if change.outcome else ""
        return f"{'again':<11} {title}{why}"
    word = "prepared" if change.kind == "prepare" and change.outcome == "finished" else str(change.outcome)
    facts = [duration(seconds)] if seconds else []
    if success is not None:
        facts.append(f"success {percent(success)}")
    tail = f" ({', '.join(facts)})" if facts else ""
    return f"{word:<11} {title}{tail}{': ' + change.reason if change.reason else ''}"


def describe_preparation(view: View) -> str:
    """For example `base model for qwen2.5-3b (23 s, about 12 s left): base model: step 851/1500, loss 0.5`."""
    facts = [duration(view.seconds)] if view.state == RUNNING else ["elsewhere"]
    facts += [f"about {duration(view.eta)} left"] if view.eta is not None and view.state == RUNNING else []
    return f"{one_line(view.title)} ({', '.join(facts)}){': ' + one_line(view.note) if view.note else ''}"


def summary(totals: Totals) -> str:
    """One line about the whole sweep: `12 of 72 done, 2 running, 58 to go, about 12.5 min left`."""
    parts = [f"{totals.done} of {totals.runs} done"]
    parts += [f"{totals.failed} failed"] if totals.failed else []
    parts += [f"{totals.preparing} preparing"] if totals.preparing else []
    parts += [f"{totals.running} running"] if totals.running else []
    parts += [f"{totals.waiting} elsewhere"] if totals.waiting else []
    parts += [f"{totals.queued} to go"] if totals.queued else []
    if totals.eta is not None:
        parts.append(f"about {duration(totals.eta)} left")
    elif totals.queued:
        parts.append("time left not known before a run has ended")
    return ", ".join(parts)
