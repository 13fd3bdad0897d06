"""Find and kill processes by a mark: an environment variable that they were started with.

Every descendant inherits the mark, whatever its session, process group or parent. The mark is read from /proc.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from plat.processes.own_process import wait_for_end

DEADLINE = 5.0  # seconds to wait for killed processes; one that the kernel blocks may take longer
SCANS = 3  # empty scans in a row before the search ends: one scan may miss a process that starts during it
PAUSE = 0.02  # seconds between two scans

# Processes that change their title overwrite their own environment, and so a mark. Those that use the
# library setproctitle, as Ray's do, keep the environment if this variable is set.
READABLE = {"SPT_NOENV": "1"}


def marked(name: str, value: str) -> list[int]:
    """Return the processes whose environment has this variable with this value. Zombies have no environment."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _carries(int(entry), name, value)]


def kill_marked(name: str, value: str, spared: Collection[int] = ()) -> bool:
    """Kill the processes with this mark except the spared ones, and what they start meanwhile; wait for their end.

    Returns True when none is left, False when some still exist after DEADLINE seconds.
    """
    until = time.monotonic() + DEADLINE
    empty = 0
    while empty < SCANS and time.monotonic() < until:
        killed = [handle for pid in marked(name, value) if pid not in spared for handle in _kill(pid, name, value)]
        empty = 0 if killed else empty + 1
        for handle in killed:  # a process loses its environment, and so its mark, before it has ended
            wait_for_end(handle, max(0.0, until - time.monotonic()))
            os.close(handle)
        if empty < SCANS:
            time.sleep(PAUSE)
    return empty >= SCANS


def _kill(pid: int, name: str, value: str) -> list[int]:
    """Kill a process if it has the mark, and return [its pidfd]; [] if it has no mark or does not exist."""
    try:
        handle = os.pidfd_open(pid)  # refers to this process even when its number is reused
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


def _carries(pid: int, name: str, value: str) -> bool:
    try:
        return os.fsencode(f"{name}={value}") in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
