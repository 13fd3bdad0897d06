"""Processes that carry a mark: an environment variable with which they, or what started them, were started.

A mark is inherited by everything that a process starts, whatever its session, its process group or its parent, so it
finds programs that nobody else remembers. It is read from /proc; on systems without that, no process is found.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

DEADLINE = 5.0  # seconds to wait for killed processes: one that the kernel itself holds up may take longer
SCANS = 3  # that find nothing in a row before it is believed: one scan may miss a process that is started during it
PAUSE = 0.02  # seconds between two scans

# Processes that change their title write it over their own environment, where a mark would be lost; those that use the
# library setproctitle, as Ray's do, leave the environment alone when this variable is set.
READABLE = {"SPT_NOENV": "1"}


def marked(name: str, value: str) -> list[int]:
    """The processes whose environment has this variable with this value. A zombie has no environment any more."""
    return [int(entry) for entry in _proc() if entry.isdigit() and _carries(int(entry), name, value)]


def kill_marked(name: str, value: str, spared: Collection[int] = ()) -> bool:
    """Kill the processes with this mark but for the spared ones, and whatever they start meanwhile.

    True when none is left; False when some are still there after DEADLINE seconds.
    """
    until = time.monotonic() + DEADLINE
    empty = 0
    while empty < SCANS and time.monotonic() < until:
        pids = [pid for pid in marked(name, value) if pid not in spared]
        empty = 0 if pids else empty + 1
        for pid in pids:
            _kill(pid, name, value)
        if empty < SCANS:
            time.sleep(PAUSE)
    return empty >= SCANS


def _kill(pid: int, name: str, value: str) -> None:
    with contextlib.suppress(OSError):
        handle = os.pidfd_open(pid)  # names this process for good, also when its number is used again
        try:
            if _carries(pid, name, value):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _carries(pid: int, name: str, value: str) -> bool:
    try:
        return os.fsencode(f"{name}={value}") in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _proc() -> list[str]:
    try:
        return os.listdir("/proc")
    except OSError:
        return []
