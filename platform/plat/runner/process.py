"""What a run needs of its process: signals that ask it to stop, a log for all it prints, and its number of threads."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COMMAND_GONE = "the command that had started it was gone (killed, or it crashed)"


class Stop:
    """Whether the run was asked to stop, and how that came about."""

    asked = False
    reason = "asked to stop"


class Command:
    """The process that has this one started: the sweep of a worker. Elsewhere, and where it has no handle, unknown."""

    handle: int | None = None  # a pidfd; whoever forks this process opens it

    @classmethod
    def has_ended(cls) -> bool:
        return cls.handle is not None and wait_for_end(cls.handle, 0.0)


def handle_of(pid: int) -> int | None:
    """A handle (pidfd) of a process; None on systems that have none, and of a process that is gone."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def wait_for_end(handle: int, seconds: float) -> bool:
    """Whether the process of a handle has ended after at most so many seconds."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(1000 * seconds))


@contextlib.contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """SIGTERM, and SIGINT unless it is ignored, ask the trainer to stop; a second SIGINT interrupts it."""
    stop = Stop()

    def ask(number: int, frame: Any) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.asked and Command.has_ended():
            stop.reason = COMMAND_GONE
        stop.asked = True

    before: dict[signal.Signals, Any] = {}
    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, ask)
    except ValueError:
        pass  # not the main thread: nothing to listen with
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def output_to(path: Path | None) -> Iterator[None]:
    """Send everything printed, and the traceback of a segfault, to a file; None: change nothing."""
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
                stream.flush()  # what was printed through the old stream belongs to the log, too
            os.dup2(descriptor, number)
            os.close(descriptor)
        with contextlib.suppress(OSError):  # the disk may be full
            file.close()
        if watched:
            faulthandler.enable(sys.__stderr__ or 2)


def pin_threads(threads: int) -> None:
    """Let torch use that many threads, where it is loaded."""
    if threads and "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)
