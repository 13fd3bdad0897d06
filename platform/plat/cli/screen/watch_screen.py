"""`plat watch`: the runs as lines, and as a live table with keys on a terminal."""

from __future__ import annotations

import contextlib
import os
import re
import select
import subprocess
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from plat.app.entries import STOPPABLE, Entry, counts
from plat.characters import as_lines, escaped, one_line
from plat.dispatch.follower import Follower, View, laid_out
from plat.plain_files import open_regular
from plat.store.coordination.live_sweeps import ask_not_to_start
from plat.store.home import Home
from plat.units import duration, percent
from plat.words.states import RunStatus

GOING_ON = (RunStatus.RUNNING, RunStatus.PREPARING, RunStatus.QUEUED)
ORDER = (*GOING_ON, RunStatus.UNKNOWN, RunStatus.FAILED, RunStatus.INTERRUPTED, RunStatus.MISSING, RunStatus.DONE)
KEYS = "arrows choose · l log · c cancel · r retry · q quit"
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
UP, DOWN = ("\x1b[A", "k"), ("\x1b[B", "j")
LOG_LINES = 12
LOG_TAIL = 8192  # bytes of a log that are read
Row = tuple[str, list[str]]  # id, lines


def views_of(follower: Follower, entries: Sequence[Entry]) -> list[View]:
    """Return the progress of runs in ORDER: of running ones from their spools, of others from their states."""
    views = [_view(follower, entry) for entry in entries]
    return sorted(views, key=lambda view: ORDER.index(RunStatus(view.state)))


def _view(follower: Follower, entry: Entry) -> View:
    state = entry.state
    if state.state != RunStatus.RUNNING:
        return View(entry.id, entry.name, state.state, state.step, state.iterations, state.success)
    attempt = follower.attempt(entry.id)
    view = View(entry.id, entry.name, state.state, None, state.iterations, note=state.starting)
    if attempt is None:
        return view
    eta, shown, pace = attempt.seconds_left(state.iterations), attempt.shown, attempt.pace
    return replace(view, step=attempt.step, success=attempt.success, shown=shown, pace=pace, eta=eta)


def describe(view: View) -> str:
    """Return a run in one line, e.g. `NAME  running  iteration 3/30  success 12.5 %`, and its starting message."""
    words = {"state": "", "step time": "step ", "time": ""}
    facts = [words.get(name, f"{name} ") + cell for name, cell in view.cells.items() if cell]
    return one_line("  ".join([view.title, *facts, *filter(None, [view.note])]))


def _totals(entries: Sequence[Entry], views: Sequence[View]) -> str:
    """Return the counts of states, the best newest success, and when the last running run is expected to end."""
    left = [view.eta for view in views if view.eta is not None]
    ending = f" · running ones end in about {duration(max(left))}" if left else ""
    known = [(entry.state.success, entry.name) for entry in entries if entry.state.success is not None]
    best = f" · best so far {percent(max(known)[0])}: {max(known)[1]}" if known else ""
    return counts(entry.state for entry in entries) + best + ending


class Screen:
    """Live table of the runs that `standing` returns, until `q`; done runs are shown only when all are done."""

    def __init__(self, home: Home, standing: Callable[[], list[Entry]], every: float) -> None:
        self._home = home
        self._standing = standing
        self._every = every
        self._follower = Follower(home)
        self._entries: list[Entry] = []
        self._views: list[View] = []
        self._chosen = ""  # id of the run that keys act on
        self._message = KEYS
        self._to_cancel: View | None = None
        self._shows_log = False

    def show(self) -> int:
        """Show the screen until the user quits; return the exit code 0."""
        from rich.console import Console
        from rich.live import Live

        console = Console(file=getattr(sys.stdout, "unfiltered", sys.stdout), highlight=False)
        with _raw_keys(), Live(console=console, auto_refresh=False, screen=True) as live:
            while True:
                self._update()
                live.update(self._drawn(console.width, console.height), refresh=True)
                limit = time.monotonic() + self._every
                while (rest := limit - time.monotonic()) > 0:
                    for key in _keys(rest):
                        if key == "q":
                            return 0
                        self._press(key)
                        live.update(self._drawn(console.width, console.height), refresh=True)

    def _update(self) -> None:
        self._entries = self._standing()
        unfinished = [entry for entry in self._entries if entry.state.state != RunStatus.DONE]
        self._views = views_of(self._follower, unfinished or self._entries)
        if self._views and self._chosen not in [view.id for view in self._views]:
            self._chosen = self._views[0].id

    @property
    def _index(self) -> int:
        return next((index for index, view in enumerate(self._views) if view.id == self._chosen), 0)

    def _press(self, key: str) -> None:
        index = self._index
        if self._to_cancel is not None:
            self._message = self._cancel(self._to_cancel) if key == "y" else KEYS
            self._to_cancel = None
        elif key in UP and self._views:
            self._chosen = self._views[max(0, index - 1)].id
        elif key in DOWN and self._views:
            self._chosen = self._views[min(len(self._views) - 1, index + 1)].id
        elif key == "l":
            self._shows_log = not self._shows_log
        elif key == "c" and self._views:
            self._to_cancel = self._views[index]
            self._message = f"stop {self._to_cancel.title}? A later sweep that includes it resumes it. y or n"
        elif key == "r" and self._views:
            self._message = self._retry(self._views[index])

    def _cancel(self, run: View) -> str:
        from plat.dispatch.schedulers import cancel_runs

        if run.state in STOPPABLE:
            cancel_runs(self._home, [run.id])
            return f"asked to stop: {run.title}"
        if ask_not_to_start(self._home, [run.id]):
            return f"asked a sweep not to start the run {run.title}"
        return f"{run.title} is not active"

    def _retry(self, run: View) -> str:
        """Start `plat retry` of this run in the background."""
        if run.state != RunStatus.FAILED:
            return f"{run.title} has not failed"
        self._home.logs.mkdir(exist_ok=True)
        log = self._home.logs / "retry.txt"
        arguments = ["retry", "--where", f"id={run.id}", "--home", str(self._home.root)]
        with open(log, "ab") as output:
            subprocess.Popen(
                [sys.executable, "-P", "-m", "plat", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return f"trying again: {run.title} ({log})"

    def _drawn(self, width: int, height: int) -> Any:
        from rich.console import Group
        from rich.text import Text

        log = self._log_tail() if self._shows_log else []
        room = max(1, height - len(log) - 4)  # lines for the runs, under a header and above two lines of text
        near = self._near_chosen(room)
        header, blocks = laid_out(near, width)
        texts = [Text(line, style="bold") for line in header]
        rows = [(view.id, block) for view, block in zip(near, blocks, strict=True)]
        for run_id, lines in self._visible(rows, room):
            texts += [Text(line, style="reverse" if run_id == self._chosen else "") for line in lines]
        texts += [Text(), *(Text(line, style="dim") for line in log)]
        totals_line = Text(escaped(_totals(self._entries, self._views)))
        return Group(*texts, totals_line, Text(one_line(self._message), style="bold"))

    def _near_chosen(self, room: int) -> list[View]:
        """Return the runs that may be visible in `room` lines, so that thousands of others need no layout."""
        index = self._index
        return self._views[max(0, index - room) : index + room]

    def _visible(self, rows: list[Row], room: int) -> list[Row]:
        """Return as many rows as fit into `room` lines, including the chosen one."""
        first = next((index for index, row in enumerate(rows) if row[0] == self._chosen), 0)
        last, used = first, len(rows[first][1]) if rows else 0
        while (first > 0 or last + 1 < len(rows)) and used < room:
            if last + 1 < len(rows):
                last += 1
                used += len(rows[last][1])
            else:
                first -= 1
                used += len(rows[first][1])
        return rows[first : last + 1] if used <= room or first == last else rows[first:last]

    def _log_tail(self) -> list[str]:
        """Return the last lines of the newest log of the chosen run."""
        attempts = self._home.run(self._chosen).attempts() if self._chosen else []
        if not attempts:
            return ["(it has no log yet)"]
        try:
            with open_regular(attempts[-1].log) as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL))
                lines = as_lines(file.read().decode(errors="replace")).splitlines()[-LOG_LINES:]
        except OSError:
            lines = []
        return [one_line(line) for line in lines] or ["(its log is empty)"]


@contextlib.contextmanager
def _raw_keys() -> Iterator[None]:
    """Read keys one by one without echo inside the `with` block; Ctrl-C still interrupts."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _keys(timeout: float) -> list[str]:
    """Return the keys pressed within `timeout` seconds: arrows as escape sequences, the end of input as `q`."""
    if not sys.stdin.isatty():
        time.sleep(timeout)
        return []
    if not select.select([sys.stdin], [], [], timeout)[0]:
        return []
    data = os.read(sys.stdin.fileno(), 64)
    return _KEY.findall(data.decode(errors="replace")) if data else ["q"]
