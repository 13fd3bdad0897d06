"""Find out if a file is open."""

from __future__ import annotations

import contextlib
import glob
import os


def is_open(path: str) -> bool:
    """Return True if a process of this user and machine, which may be this one, has a file open."""
    real = os.path.realpath(path)
    for link in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(link) == real:
                return True
    return False
