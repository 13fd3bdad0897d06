"""Processes, named so that they can be recognised later: by host, machine, boot, number and start time.

A process number alone names nobody, because numbers are used again. With the start time and the boot it names one
process for good; `is_of_this_boot` and `runs` say what became of it.
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
    """The facts that name this process: host, boot_id, machine_id, pid and pid_start, JSON-able."""
    return {
        "host": socket.gethostname(),
        "boot_id": boot_id(),
        "machine_id": machine_id(),
        "pid": os.getpid(),
        "pid_start": process_start(os.getpid()),
    }


def may_run(facts: dict[str, Any]) -> bool:
    """Whether the process that these facts name may still run; on another machine that cannot be excluded."""
    if facts.get("host") != socket.gethostname() or facts.get("machine_id") != machine_id():
        return True
    return is_of_this_boot(facts) and runs(facts)


def is_of_this_boot(facts: dict[str, Any] | None) -> bool:
    """Whether the process that these facts name was started on this machine since it booted."""
    return facts is not None and facts.get("boot_id") == boot_id() and facts.get("host") == socket.gethostname()


def is_of_this_machine(facts: dict[str, Any] | None) -> bool:
    """Whether the facts name a process of this machine, of this boot or of an earlier one.

    Host names and machine ids are copied with disk images, so this is certain only of facts from a local disk.
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
    """Whether a process of this boot is alive. Its start time tells it from a later one of the same number."""
    pid = (facts or {}).get("pid")
    return facts is not None and isinstance(pid, int) and process_start(pid) == facts.get("pid_start", "")


def process_start(pid: int) -> str | None:
    """When a process started (ticks since boot on Linux), None when there is no such process or it is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (FileNotFoundError, ProcessLookupError):
        if os.path.exists("/proc/self/stat"):
            return None
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return None


@lru_cache(maxsize=1)
def boot_id() -> str:
    """What tells this boot of the machine from every other boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        import psutil

        return str(int(psutil.boot_time()))


@lru_cache(maxsize=1)
def machine_id() -> str | None:
    """What tells this machine from others across its boots (a hash, as systemd asks for); None where there is none."""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError):
            if text := Path(name).read_text().strip():
                return hashlib.sha256(f"plat {text}".encode()).hexdigest()[:16]
    return None
