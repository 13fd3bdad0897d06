"""The stamp of a file: equal stamps mean equal content."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

SETTLED = 2.0  # seconds after its last change from which on a file's stamp is remembered
SAMPLE = 64  # files after which it is known whether the file system is slow
SLOW = 1e-4  # seconds for one file; a network file system takes longer, a local one a few microseconds
AT_ONCE, PART = 32, 100  # threads that ask a slow file system at once, and files that each asks for at a time


def stamp(path: str | os.PathLike[str]) -> str | None:
    """Inode, size, and the times at which content and inode were changed last; None when there is no such file.

    The second time cannot be set back by a user, so that an edit is noticed whatever it does to the first.
    """
    try:
        status = os.stat(path)
    except OSError:
        return None
    return f"{status.st_ino}:{status.st_size}:{status.st_mtime_ns}:{status.st_ctime_ns}"


def stamps(paths: Sequence[str]) -> list[str | None]:
    """The stamps of many files; of several at once where each takes long."""
    started = time.perf_counter()
    marks = [stamp(path) for path in paths[:SAMPLE]]
    if len(paths) <= SAMPLE or time.perf_counter() - started < SLOW * SAMPLE:
        return marks + [stamp(path) for path in paths[SAMPLE:]]
    from concurrent.futures import ThreadPoolExecutor

    parts = [paths[start : start + PART] for start in range(SAMPLE, len(paths), PART)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part in pool.map(lambda part: [stamp(path) for path in part], parts):
            marks += part
    return marks


def is_settled(mark: str, now: float) -> bool:
    """Whether the file was changed long enough ago that a change from now on gives it another stamp.

    File systems count time in steps of some milliseconds (some in seconds): two changes within one step look alike.
    """
    return now - int(mark.rpartition(":")[2]) / 1e9 > SETTLED
