"""Contain the processes of a run: everything that a run starts ends with it, daemons in other sessions included.

Promised: when a run ends in any way, every process below it ends before its outcome is reported; no other process is
touched.

The process of a run is the *subreaper* of its descendants: it adopts orphans, so all descendants stay below it. At the
end of the run it sends them SIGTERM, then SIGKILL. If the process of the run is killed, its parent, the worker server,
adopts and ends them in the same way. If both are killed at once, the next attempt of the run kills the leftovers: they
carry the run's directory in their environment (`plat.processes.identification`).
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

from plat.processes.identification import READABLE, kill_marked

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 1, 36, 37  # of Linux, in prctl.h
MARK = "PLAT_RUN_DIRECTORY"  # environment variable with the run's directory
GRACE = 3.0  # seconds between SIGTERM and SIGKILL
DEADLINE = 5.0  # seconds to wait for killed processes; one that the kernel blocks may take longer
SCANS = 5  # empty scans in a row before the search ends: one scan may miss a process that forks during it


def signal_when_parent_ends(number: int) -> None:
    """Let the kernel send this process a signal when its parent, or the parent's thread that started it, ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


def signal_name(number: int) -> str:
    """Return the name of a signal, for example "SIGTERM"; "signal 40" if Python has no name (a real-time signal)."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def adopt_orphans(adopt: bool = True) -> None:
    """Become, or stop being, the subreaper of all descendants."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(adopt))


def adopts_orphans() -> bool:
    """Return True if this process is a subreaper."""
    answer = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(answer))
    return bool(answer.value)


@contextlib.contextmanager
def contained(run: Path) -> Iterator[None]:
    """End everything that the block starts when the block ends. The process must start nothing else meanwhile.

    run   the run's directory, by which `kill_leftovers` finds the processes
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
    """End every descendant of a process: SIGTERM, then SIGKILL after `grace` seconds; without `grace` SIGKILL at once.

    Children in `spared` and processes below them are left alone. Zombie descendants are reaped if they are children of
    this process. Returns at once if there are none, at the latest DEADLINE seconds after the grace time.
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
    while (pids := remaining()) and time.monotonic() < until:  # a process that forks meanwhile takes another round
        _signal_all(pids, signal.SIGKILL)
        for _ in range(SCANS):  # reading the children takes less time than a fork, unlike reading all of /proc
            _signal_all(set(children(pid)) - set(spared), signal.SIGKILL)
        _wait(lambda: not remaining(), 0.1)


def _resource_tracker() -> list[int]:
    """Return [pid] of multiprocessing's resource tracker of this process, [] if there is none. It ignores SIGTERM."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    pid = getattr(getattr(module, "_resource_tracker", None), "_pid", None)
    return [] if pid is None else [pid]


def _stop_resource_tracker() -> None:
    """Let the tracker finish its work and end. All processes that share memory must have ended before."""
    module = sys.modules.get("multiprocessing.resource_tracker")
    if _resource_tracker() and module is not None:
        with contextlib.suppress(AttributeError, OSError):
            module._resource_tracker._stop()


def children(pid: int) -> list[int]:
    """Return the processes whose parent is `pid`, zombies included; [] if there is no such process."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        lists = [Path(f"/proc/{pid}/task/{thread}/children").read_text() for thread in threads]
        return [int(child) for text in lists for child in text.split()]
    except OSError:
        return [child for child, parent in _parents().items() if parent == pid]


def descendants(pid: int, spared: Collection[int] = ()) -> list[int]:
    """Return every process below `pid`, parents first, except children in `spared` and processes below them.

    Zombies are left out, and those that are children of this process are reaped.
    """
    parents = _parents()
    below: list[int] = []
    level = [pid]
    while level:
        level = [child for child, parent in parents.items() if parent in level and child not in spared]
        below += level
    return [child for child in below if not _is_zombie(child, reap=parents[child] == os.getpid())]


def _parents() -> dict[int, int]:
    """Return process -> parent, for all processes. Unlike lists of children this is reliable while processes end."""
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
        return False


def kill_leftovers(run: Path) -> None:
    """Kill the processes with the run's directory in their environment, left by earlier attempts on this machine.

    Call it under the run's lease. This process and its ancestors are spared.
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
