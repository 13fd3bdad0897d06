"""The lock of a run, which the process that works on the run holds for its whole life; the kernel lets go of it then.

It is an flock on `lease.lock` (see `plat.store.run_directory.lease`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from plat.store.durable import NO_LOCKS

# Descriptors of the locks that this process holds. A forked child inherits them, and with them the locks; it closes its
# copies, so that no lock outlives the process that took it.
_held: set[int] = set()


def open_lock(path: Path) -> int:
    """A descriptor of the lock file, made where there is none; OSError when that cannot be done."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)


def try_lock(handle: int) -> bool | None:
    """Whether we have the lock; None where the file system has none.

    Tried three times: a reader's test (`is_locked`) may hold it for an instant.
    """
    for wait in (0.002, 0.01, None):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if wait is None:
                return False
            time.sleep(wait)
        except OSError as error:
            if error.errno in NO_LOCKS:
                return None
            raise
    return False


def is_locked(path: Path) -> bool:
    """Whether a process, this one included, holds the lock now; False where the file system has no locks."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # there are no locks here
        return False
    finally:
        os.close(handle)


def keep(handle: int) -> None:
    """The lock on this descriptor is held from now on until `let_go`, or the end of the process."""
    _held.add(handle)


def let_go(handle: int) -> None:
    """Close the descriptor of a lock that is held."""
    _held.discard(handle)
    os.close(handle)


def _drop_in_child() -> None:
    for handle in _held:
        with contextlib.suppress(OSError):
            os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_drop_in_child)
