"""Advisory locks (flock) on open files. The kernel releases a lock when its file is closed or its process ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import glob
import os
import stat
from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # of a file system without locks


# Whoever can read a lock file can lock it, and so stop the others: that is left to the owner and the group.
LOCK_MODE = 0o660


def open_lock(path: Path, mode: int = LOCK_MODE) -> int:
    """Return a descriptor of a lock file, creating the file if it is missing. Raises OSError.

    A file of this user that all users may read, as earlier versions made it, is closed to others.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)
    status = os.fstat(handle)
    if status.st_mode & 0o007 and status.st_uid == os.geteuid():
        os.fchmod(handle, stat.S_IMODE(status.st_mode) & ~0o007)
    return handle


def take_lock(handle: int, *, shared: bool = False, wait: bool = False) -> bool | None:
    """Lock an open file; with `wait`, wait as long as another process holds it.

    Returns True when the lock is held, False when another process holds it, None when the file system has no locks.
    Raises OSError for any other failure.
    """
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(handle, operation)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in NO_LOCKS:
            return None
        raise
    return True


def probe_lock(path: Path) -> bool | None:
    """Return True if no process holds the exclusive lock of a file, False if one does.

    Takes and releases a shared lock; returns None if the file system has no locks. Raises OSError if that fails,
    FileNotFoundError if there is no such file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return take_lock(handle, shared=True)
    finally:
        os.close(handle)


# Find out if a file is open.


def is_open(path: str) -> bool:
    """Return True if a process of this user and machine, which may be this one, has a file open."""
    real = os.path.realpath(path)
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == real:
                return True
    return False
