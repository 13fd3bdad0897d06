"""Identify processes for later, by host, machine, boot, process number and start time.

A process number alone is ambiguous, because numbers are reused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import time
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.processes.own_process import wait_for_end


def this_process() -> dict[str, Any]:
    """Return the facts that identify this process, JSON-able: host, boot_id, machine_id, pid and pid_start."""
    return {
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "machine_id": machine_id(),
        "pid": os.getpid(),
        "pid_start": process_start(os.getpid()),
    }


def may_run(facts: dict[str, Any]) -> bool:
    """Return True if the identified process may still run. For another machine this is always True."""
    if facts.get("host") != socket.gethostname() or facts.get("machine_id") != machine_id():
        return True
    return is_of_this_boot(facts) and runs(facts)


def is_of_this_boot(facts: dict[str, Any] | None) -> bool:
    """Return True if the identified process was started on this machine since its last boot."""
    return facts is not None and facts.get("boot_id") == boot_id() and facts.get("host") == socket.gethostname()


def is_of_this_machine(facts: dict[str, Any] | None) -> bool:
    """Return True if the facts identify a process of this machine, of this or an earlier boot.

    Disk images copy host names and machine ids: only facts from a local disk are certain.
    """
    own_machine = machine_id()
    return (
        facts is not None
        and own_machine is not None
        and facts.get("machine_id") == own_machine
        and facts.get("host") == socket.gethostname()
        and isinstance(facts.get("boot_id"), str)
    )


def runs(facts: dict[str, Any] | None) -> bool:
    """Return True if the identified process, which must be of this boot, is alive. A reused number does not count."""
    pid = (facts or {}).get("pid")
    return facts is not None and isinstance(pid, int) and process_start(pid) == facts.get("pid_start", "")


def process_start(pid: int) -> str | None:
    """Return the start time of a process in ticks since boot; None if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return an id of this boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return str(int(psutil.boot_time()))


@lru_cache(maxsize=1)
def machine_id() -> str | None:
    """Return a hash that identifies this machine across boots (systemd asks not to expose the id itself), or None."""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            if text := Path(name).read_text().strip():
                return hashlib.sha256(f"plat {text}".encode()).hexdigest()[:16]
    return None


# Find and kill processes by a mark: an environment variable that they were started with.
#
# Every descendant inherits the mark, whatever its session, process group or parent. The mark is read from /proc.

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
