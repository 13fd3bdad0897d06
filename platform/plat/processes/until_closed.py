"""Run a command until standard input is closed: `python -m plat.processes.until_closed COMMAND...`.

It is for programs of a run on other machines: the process that starts them holds their standard input open, so it
closes when that process ends in any way. Then the command and all its descendants are ended; also on SIGTERM, when the
parent of this process ends, and when the command ends. The exit code is the command's, 0 if it was ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from plat.processes.process_tree import MARK, contained, signal_when_parent_ends

TICK = 0.2  # seconds between two checks of the command


def run_until_closed(command: list[str]) -> int:
    """Run the command; end it and its descendants when standard input is closed, or on SIGTERM.

    Returns its exit code (-N if signal N ended it), or 0 if it was still running and had to be ended.
    """
    closed = closing_of_stdin()
    signal.signal(signal.SIGTERM, lambda number, frame: closed.set())
    signal_when_parent_ends(signal.SIGTERM)
    with contained(Path(os.environ.get(MARK, os.getcwd()))):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while process.poll() is None and not closed.wait(TICK):
            pass
        return process.poll() or 0


def closing_of_stdin() -> threading.Event:
    """Return an event that is set when standard input is closed, or if there is none."""
    closed = threading.Event()

    def wait() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        closed.set()

    threading.Thread(target=wait, daemon=True).start()
    return closed


if __name__ == "__main__":
    sys.exit(run_until_closed(sys.argv[1:]))
