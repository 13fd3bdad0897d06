"""The live table of `plat watch` on a terminal, and its keys."""

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
from collections.abc import Callable, Iterator
from typing import Any

from plat.cli.entries import STOPPABLE, Entry
from plat.cli.follow import Follower, Progress, cells, ordered, totals
from plat.cli.table import row_blocks
from plat.plain_files import open_regular
from plat.store.home import Home
from plat.store.live_sweeps import ask_not_to_start
from plat.text import as_lines, escaped, one_line, wrapped

COLUMNS = ("state", "iteration", "success", "retrieval", "step time", "left")
KEYS = "arrows choose · l log · c cancel · r retry · q quit"
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
UP, DOWN = ("\x1b[A", "k"), ("\x1b[B", "j")
LOG_LINES = 12
LOG_TAIL = 8192  # bytes of a log that are read
Row = tuple[str, list[str]]  # id, lines


class Screen:
    """Shows the runs that `standing` gives, every so many seconds, until `q`: those that are not done, or all of them
    where all are done."""

    def __init__(self, home: Home, standing: Callable[[], list[Entry]], every: float) -> None:
        self._home = home
        self._standing = standing
        self._every = every
        self._follower = Follower(home)
        self._entries: list[Entry] = []
        self._progress: list[Progress] = []
        self._chosen = ""  # id of the run that keys act on
        self._message = KEYS
        self._to_cancel: Progress | None = None
        self._shows_log = False

    def show(self) -> int:
        """Show the screen until the user leaves it; the exit code."""
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
        unfinished = [entry for entry in self._entries if entry.state.state != "done"]
        self._progress = ordered(self._follower.progress(unfinished or self._entries))
        if self._progress and self._chosen not in [run.entry.id for run in self._progress]:
            self._chosen = self._progress[0].entry.id

    def _press(self, key: str) -> None:
        index = next((i for i, run in enumerate(self._progress) if run.entry.id == self._chosen), 0)
        if self._to_cancel is not None:
            self._message = self._cancel(self._to_cancel) if key == "y" else KEYS
            self._to_cancel = None
        elif key in UP and self._progress:
            self._chosen = self._progress[max(0, index - 1)].entry.id
        elif key in DOWN and self._progress:
            self._chosen = self._progress[min(len(self._progress) - 1, index + 1)].entry.id
        elif key == "l":
            self._shows_log = not self._shows_log
        elif key == "c" and self._progress:
            self._to_cancel = self._progress[index]
            self._message = f"stop {self._to_cancel.entry.name} until it is asked for again? y or n"
        elif key == "r" and self._progress:
            self._message = self._retry(self._progress[index])

    def _cancel(self, run: Progress) -> str:
        from plat.dispatch.cancel import cancel_runs

        if run.entry.state.state in STOPPABLE:
            cancel_runs(self._home, [run.entry.id])
            return f"asked to stop: {run.entry.name}"
        if ask_not_to_start(self._home, [run.entry.id]):
            return f"asked a sweep not to start: {run.entry.name}"
        return f"{run.entry.name} is not going on"

    def _retry(self, run: Progress) -> str:
        """Start `plat retry` of this run in the background."""
        if run.entry.state.state != "failed":
            return f"{run.entry.name} has not failed"
        self._home.logs.mkdir(exist_ok=True)
        log = self._home.logs / "retry.txt"
        command = [
            sys.executable,
            "-m",
            "plat",
            "retry",
            "--where",
            f"id={run.entry.id}",
            "--home",
            str(self._home.root),
        ]
        with open(log, "ab") as output:
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        return f"trying again: {run.entry.name} ({log})"

    def _drawn(self, width: int, height: int) -> Any:
        from rich.console import Group
        from rich.text import Text

        log = self._log_tail() if self._shows_log else self._starting()
        room = max(1, height - len(log) - 4)  # lines for the runs, under a header and above two lines of text
        header, rows = _laid_out(self._near_chosen(room), width)
        texts = [Text(line, style="bold") for line in header]
        for run_id, lines in self._visible(rows, room):
            texts += [Text(line, style="reverse" if run_id == self._chosen else "") for line in lines]
        texts += [Text(), *(Text(line, style="dim") for line in log)]
        totals_line = Text(escaped(totals(self._entries, self._progress)))
        return Group(*texts, totals_line, Text(one_line(self._message), style="bold"))

    def _near_chosen(self, room: int) -> list[Progress]:
        """The runs that may be visible in so many lines, so that thousands of others are not laid out."""
        index = next((i for i, run in enumerate(self._progress) if run.entry.id == self._chosen), 0)
        return self._progress[max(0, index - room) : index + room]

    def _visible(self, rows: list[Row], room: int) -> list[Row]:
        """As many rows as so many lines of the terminal hold, the chosen one among them."""
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

    def _starting(self) -> list[str]:
        """What the chosen run says that it is doing while it has no step yet, as no or one line."""
        texts = [run.entry.state.starting for run in self._progress if run.entry.id == self._chosen]
        return [one_line(text) for text in texts if text]

    def _log_tail(self) -> list[str]:
        """The last lines of the newest log of the chosen run."""
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


def _laid_out(runs: list[Progress], width: int) -> tuple[list[str], list[Row]]:
    """The header and the rows, without the columns that are empty for all of these runs. No cell is cut: where a line
    would be too long, a run's name stands above its other cells."""
    names, values = [one_line(run.entry.name) for run in runs], [cells(run) for run in runs]
    shown = [index for index in range(len(COLUMNS)) if index == 0 or any(row[index] for row in values)]
    columns, facts = [COLUMNS[index] for index in shown], [[row[index] for index in shown] for row in values]
    texts = [[name, *row] for name, row in zip(names, facts, strict=True)]
    header, blocks = row_blocks(["run", *columns], texts, width) if runs else ([], [])
    if runs and not header:
        header, blocks = row_blocks(columns, facts, width, "  ")
        blocks = [[name, *block] for name, block in zip(names, blocks, strict=True)]
    fitting = [[part for line in block for part in wrapped(line, width)] for block in blocks]
    return header, [(run.entry.id, block) for run, block in zip(runs, fitting, strict=True)]


@contextlib.contextmanager
def _raw_keys() -> Iterator[None]:
    """Keys come one by one and are not shown; Ctrl-C still interrupts."""
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
    """The keys that were pressed within so many seconds; arrows come as their escape sequences, the end as `q`."""
    if not sys.stdin.isatty():
        time.sleep(timeout)
        return []
    if not select.select([sys.stdin], [], [], timeout)[0]:
        return []
    data = os.read(sys.stdin.fileno(), 64)
    return _KEY.findall(data.decode(errors="replace")) if data else ["q"]
