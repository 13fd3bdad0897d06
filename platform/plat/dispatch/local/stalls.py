"""Heartbeat by progress: a run that logs nothing for too long is stalled, however alive its process is.

Time is measured on the monotonic clock of whoever checks, so clocks that jump or disagree do no harm. Preparations
have no spool and are never called stalled.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from plat.dispatch.local.jobs import LocalJob
from plat.store.home import Home

ABSENCE = 30.0  # seconds without a check after which the clock starts anew
LAST_WORDS = 5.0  # seconds a stalled run has to print where it hangs


def check(job: LocalJob, home: Home, limit: float) -> int | None:
    """The signal that a running job should get now, or None.

    After `limit` seconds without an event or a beat (`plat.trainer.heartbeat`) SIGABRT, on which the process prints the
    tracebacks of all its threads into its log and dies; LAST_WORDS later SIGKILL. `job.ending` then says why.
    """
    now = time.monotonic()
    if job.kind != "run":
        return None
    if job.kill_at is not None:
        return signal.SIGKILL if now >= job.kill_at else None
    sign = sign_of_life(job, home)
    if sign != job.sign_of_life:
        job.sign_of_life, job.grown = sign, now
    elif now - job.grown > limit:
        job.ending = ("failed:stalled", f"no event for {now - job.grown:.0f} s")
        job.kill_at = now + LAST_WORDS
        return signal.SIGABRT
    return None


def sign_of_life(job: LocalJob, home: Home) -> tuple[int, int]:
    """(bytes in the newest attempt's spool, time of its last beat); -1 for what there is not."""
    attempts = home.run(job.run.id).attempts()
    if not attempts:
        return (-1, -1)
    spool, beats = _stat(attempts[-1].events), _stat(attempts[-1].alive)
    return (-1 if spool is None else spool.st_size, -1 if beats is None else beats.st_mtime_ns)


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except OSError:
        return None
