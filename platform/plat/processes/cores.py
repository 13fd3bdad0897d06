"""Count the CPU cores that this process may use. Planning and running both divide the runs by this number."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


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
