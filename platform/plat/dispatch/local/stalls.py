"""Heartbeat by progress: a run that logs nothing for too long is stalled, however alive its process is.

Time is measured on the monotonic clock of whoever checks, so clocks that jump or disagree do no harm. Preparations
have no spool and are never called stalled.
"""

from __future__ import annotations

import signal
import time

from plat.dispatch.local.jobs import LocalJob
from plat.store.home import Home

ABSENCE = 30.0  # seconds without a check after which the clock starts anew
LAST_WORDS = 5.0  # seconds a stalled run has to print where it hangs


def check(job: LocalJob, home: Home, limit: float) -> int | None:
    """The signal that a running job should get now, or None.

    After `limit` seconds without growth of events.jsonl SIGABRT, on which the process prints the tracebacks of all its
    threads into its log and dies; LAST_WORDS later SIGKILL. `job.ending` then says why.
    """
    now = time.monotonic()
    if job.kind != "run":
        return None
    if job.kill_at is not None:
        return signal.SIGKILL if now >= job.kill_at else None
    size = spool_size(job, home)
    if size != job.spool_size:
        job.spool_size, job.grown = size, now
    elif now - job.grown > limit:
        job.ending = ("failed:stalled", f"no event for {now - job.grown:.0f} s")
        job.kill_at = now + LAST_WORDS
        return signal.SIGABRT
    return None


def spool_size(job: LocalJob, home: Home) -> int:
    """Bytes in the newest attempt's spool, -1 before there is one."""
    attempts = home.run(job.run.id).attempts()
    try:
        return attempts[-1].events.stat().st_size if attempts else -1
    except OSError:
        return -1
