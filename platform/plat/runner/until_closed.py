"""`python -m plat.runner.until_closed COMMAND...` runs a command until its own standard input is closed.

For programs of a run on other machines. Whoever starts them there holds their standard input open, so that it closes
when that process ends in whatever way. The command, and whatever it has started, is ended then; also on SIGTERM, when
the parent of this process ends, and when the command itself ends. The exit code is the command's, 0 where it was ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from plat.runner.process_tree import MARK, contained, signal_when_parent_ends

TICK = 0.2  # seconds between two checks of the command


def run_until_closed(command: list[str]) -> int:
    """Run the command as this module promises; the exit code."""
    closed = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: closed.set())
    signal_when_parent_ends(signal.SIGTERM)
    threading.Thread(target=_wait_until_closed, args=(closed,), daemon=True).start()
    with contained(Path(os.environ.get(MARK, os.getcwd()))):
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while process.poll() is None and not closed.wait(TICK):
            pass
        return process.poll() or 0


def _wait_until_closed(closed: threading.Event) -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:  # there is no standard input
        pass
    closed.set()


if __name__ == "__main__":
    sys.exit(run_until_closed(sys.argv[1:]))
