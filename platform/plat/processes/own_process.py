"""Set up a process for a run: its environment, signals that ask it to stop, a log for its output, its threads."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

COMMAND_GONE = "the command that had started it was gone (killed, or it crashed)"


# PYTHONOPTIMIZE removes the docstrings that transformers builds classes from, and assertions.
DROPPED = ("PYTHONOPTIMIZE",)


def without_dropped(environment: Mapping[str, str]) -> dict[str, str]:
    """Return these variables without those that break runs (DROPPED)."""
    return {name: value for name, value in environment.items() if name not in DROPPED}


class Stop:
    """Request to stop the run: `asked` is True once a signal arrived, `reason` says why."""

    asked = False
    reason = "asked to stop"


_commands: list[int] = []  # pidfd of the command (the sweep) that this worker works for; empty where unknown


def work_for_command(handle: int | None) -> None:
    """Remember the command that this process works for, for `command_has_ended`. `handle`: its pidfd; None: unknown."""
    _commands[:] = [] if handle is None else [handle]


def command_has_ended() -> bool:
    """Return True if the command that this process works for is known and has ended."""
    return any(wait_for_end(handle, 0.0) for handle in _commands)


def handle_of(pid: int) -> int | None:
    """Return a pidfd of a process; None if the process is gone."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def wait_for_end(handle: int, seconds: float) -> bool:
    """Wait at most `seconds` for the process of a pidfd to end. Returns True if it has ended."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


@contextlib.contextmanager
def handling(handler: Any, *numbers: signal.Signals) -> Iterator[None]:
    """Handle these signals with `handler` in the block. Ignored ones stay ignored.

    In a thread that is not the main thread, nothing is handled.
    """
    before = {}
    if threading.current_thread() is threading.main_thread():
        caught = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handler) for number in caught}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Yield a Stop that SIGTERM and SIGINT set, unless ignored; a SIGINT after that raises KeyboardInterrupt."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.asked and command_has_ended():
            stop.reason = COMMAND_GONE
        stop.asked = True

    with handling(ask, signal.SIGTERM, signal.SIGINT):
        yield stop


@contextlib.contextmanager
def output_to(path: Path | None) -> Iterator[None]:
    """Append what this process and its new children print in the block to a file, also a segfault's traceback.

    None: change nothing.
    """
    if path is None:
        yield
        return
    streams, descriptors = (sys.stdout, sys.stderr), (os.dup(1), os.dup(2))
    watched = faulthandler.is_enabled()
    file = open(path, "a", buffering=1, encoding="utf-8", errors="backslashreplace")
    try:
        for stream, number in zip(streams, (1, 2), strict=True):
            stream.flush()
            os.dup2(file.fileno(), number)
        sys.stdout = sys.stderr = file
        faulthandler.enable(file)
        yield
    finally:
        faulthandler.disable()
        sys.stdout, sys.stderr = streams
        for stream, number, descriptor in zip(streams, (1, 2), descriptors, strict=True):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()  # text printed through the old stream belongs in the log, too
            os.dup2(descriptor, number)
            os.close(descriptor)
        with contextlib.suppress(OSError):  # the disk may be full
            file.close()
        if watched:
            faulthandler.enable(sys.__stderr__ or 2)


def forget_peak_memory() -> None:
    """Let the peak memory of this process count from now on. Does nothing where the system refuses."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def pin_threads(threads: int) -> None:
    """Set the number of threads that torch uses; do nothing if torch is not loaded, or for 0."""
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


# Count the CPU cores that this process may use. Planning and running both divide the runs by this number.


def usable_cores() -> int:
    """Return the usable CPU cores, at least 1: the CPU affinity, limited by the quota of the control group."""
    count = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    return max(1, min(count, int(quota + 0.5))) if quota else count


def cpu_quota() -> float | None:
    """Return the number of cores that the control group (version 2 or 1) grants; None if it sets no limit."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return None if limit == "max" else int(limit) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        limit = Path("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").read_text()
        period = Path("/sys/fs/cgroup/cpu/cpu.cfs_period_us").read_text()
        return None if int(limit) <= 0 else int(limit) / int(period)
    return None
