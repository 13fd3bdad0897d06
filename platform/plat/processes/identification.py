"""Identify processes for later, by host, machine, boot, process number and start time.

A process number alone is ambiguous, because numbers are reused.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any


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
