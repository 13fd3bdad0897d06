"""Processes that carry a mark: an environment variable with which they, or what started them, were started.

A mark is inherited by everything that a process starts, whatever its session, its process group or its parent, so it
finds programs that nobody else remembers. It is read from /proc; on systems without that, no process is found.
"""

from __future__ import annotations

import os
import select
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
    """Kill the processes with this mark but for the spared ones, and whatever they start meanwhile; wait for their end.

    True when none is left; False when some are still there after DEADLINE seconds.
    """
    until = time.monotonic() + DEADLINE
    empty = 0
    while empty < SCANS and time.monotonic() < until:
        killed = [handle for pid in marked(name, value) if pid not in spared for handle in _kill(pid, name, value)]
        empty = 0 if killed else empty + 1
        for handle in killed:  # a process loses its environment, and so its mark, some time before it has ended
            _wait_for_end(handle, until)
        if empty < SCANS:
            time.sleep(PAUSE)
    return empty >= SCANS


def _kill(pid: int, name: str, value: str) -> list[int]:
    """Kill a process if it has the mark; a handle of it, [] when there is no such process any more."""
    try:
        handle = os.pidfd_open(pid)  # names this process for good, also when its number is used again
    except OSError:
        return []
    try:
        if _carries(pid, name, value):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            return [handle]
    except OSError:
        pass
    os.close(handle)
    return []


def _wait_for_end(handle: int, until: float) -> None:
    """Wait for the end of the process that a handle names, and close the handle."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll(max(0.0, until - time.monotonic()) * 1000)
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
