"""A run as a tree of processes: whatever a run starts ends with it, daemons in sessions of their own included.

Promised, on Linux: when a run ends in whatever way, every process below it ends, before its outcome is
reported; no other process is ever touched. Elsewhere processes that their parents have left behind are not found.

How. The process of a run adopts the orphans among its descendants (it is their *subreaper*), so that all of them stay
below it, however often they fork and whatever session or process group they make. At the end of the run it asks them
to end, and kills what does not. When the process of the run is itself killed, its parent adopts them: the worker
server, which starts nothing else and does the same. When that one is killed at the same moment, they are left alone
until the next attempt of the run kills them: a program that a run has started carries the run's directory in its
environment (`plat.marked`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from plat.marked import READABLE, kill_marked

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # of Linux, in prctl.h
MARK = "PLAT_RUN_DIRECTORY"  # the environment variable that names the run a process belongs to
GRACE = 3.0  # seconds that processes have to end when they are asked to
DEADLINE = 5.0  # seconds to wait for killed processes: one that the kernel itself holds up may take longer
SCANS = 5  # that find nothing in a row before it is believed: one scan may miss a process that forks during it


def signal_when_parent_ends(number: int) -> None:
    """Let the kernel send this process a signal when its parent ends; nothing on systems that cannot."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def adopt_orphans(adopt: bool = True) -> None:
    """Become the parent of every descendant whose parent ends, or no longer; nothing on systems that cannot."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt))


def adopts_orphans() -> bool:
    """Whether this process becomes the parent of orphans among its descendants."""
    answer = ctypes.c_int(0)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer))
    return bool(answer.value)


@contextlib.contextmanager
def contained(run: Path) -> Iterator[None]:
    """What the block starts ends with the block. For a process that starts nothing else meanwhile.

    run   the run's directory, by which `kill_leftovers` knows what was started here
    """
    before, adopted = children(os.getpid()), adopts_orphans()
    mark = {MARK: os.path.realpath(run), **READABLE}
    environment = {name: os.environ.get(name) for name in mark}
    os.environ.update(mark)
    adopt_orphans()
    try:
        yield
    finally:
        end_below(os.getpid(), spared=[*before, *_resource_tracker()], grace=GRACE)
        if not set(_resource_tracker()) & set(before):
            _stop_resource_tracker()
        adopt_orphans(adopted)
        for name, value in environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def end_below(pid: int, spared: Collection[int] = (), grace: float = 0.0) -> None:
    """End every descendant of a process, but not those below its children in `spared`: SIGTERM, after `grace` SIGKILL.

    Those that become zombies of this very process are reaped. Returns at once when there are none, and at the latest
    DEADLINE seconds after the last signal.
    """
    if not set(children(pid)) - set(spared):
        return

    def remaining() -> list[int]:
        for _ in range(SCANS):
            if left := descendants(pid, spared):
                return left
        return []

    if grace:
        _signal_all(remaining(), signal.SIGTERM)
        _wait(lambda: not remaining(), grace)
    until = time.monotonic() + DEADLINE
    while (pids := remaining()) and time.monotonic() < until:  # what forks while it is killed takes another round
        _signal_all(pids, signal.SIGKILL)
        for _ in range(SCANS):  # a list of children is read faster than a process can fork and end, unlike all of /proc
            _signal_all(set(children(pid)) - set(spared), signal.SIGKILL)
        _wait(lambda: not remaining(), 0.1)


def _resource_tracker() -> list[int]:
    """The process that Python's multiprocessing keeps beside this one, where it does: it removes shared memory that
    nobody else removes, and ignores SIGTERM so that it can do so last of all."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    pid = getattr(getattr(module, "_resource_tracker", None), "_pid", None)
    return [] if pid is None else [pid]


def _stop_resource_tracker() -> None:
    """Let it finish its work and end; whoever shared something with it must have ended before."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    if _resource_tracker() and module is not None:
        with contextlib.suppress(AttributeError, OSError):
            module._resource_tracker._stop()


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`, zombies included; [] when there is no such process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        lists = [Path(f"/proc/{pid}/task/{thread}/children").read_text() for thread in threads]
        return [int(child) for text in lists for child in text.split()]
    except OSError:
        return [child for child, parent in _parents().items() if parent == pid]


def descendants(pid: int, spared: Collection[int] = ()) -> list[int]:
    """Every process below `pid`, parents first, but for the children in `spared` and what is below those.

    Zombies are left out, and those of this very process are reaped.
    """
    parents = _parents()
    below: list[int] = []
    level = [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level and child not in spared]
        below += level
    return [child for child in below if not _is_zombie(child, reap=parents[child] == os.getpid())]


def _parents() -> dict[int, int]:
    """Process -> its parent, of all processes. Unlike lists of children this is reliable while processes end."""
    if not os.path.exists("/proc/self/stat"):
        import psutil

        return {process.pid: process.ppid() for process in psutil.process_iter()}
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[1])
    return parents


def _is_zombie(pid: int, reap: bool) -> bool:
    if reap:
        with contextlib.suppress(ChildProcessError):
            return os.waitpid(pid, os.WNOHANG)[0] == pid
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return not os.path.exists("/proc") and not _exists(pid)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def kill_leftovers(run: Path) -> None:
    """Kill what earlier attempts of a run have left on this machine. Call it under the run's lease, before an attempt.

    These are the programs that were started with the run's directory in their environment. This process and those
    above it are spared.
    """
    own: set[int] = set()
    parents = _parents()
    pid = os.getpid()
    while pid > 0 and pid not in own:
        own.add(pid)
        pid = parents.get(pid, 0)
    kill_marked(MARK, os.path.realpath(run), spared=own)


def _signal_all(pids: Collection[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _wait(condition: Callable[[], bool], seconds: float) -> None:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.01)
