"""When SLURM stops a task with its signal: why it did, and whether the runs get anywhere between two stops."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.plain_files import parse_json, read_text
from plat.runner.failures import RETRIES
from plat.store.durable import append_line

TIMEOUT, PREEMPTED = "timeout", "preempted"
LATE = 60.0  # seconds by which SLURM's signal may be early


def reason_of_stop(seconds: float, manifest: Mapping[str, Any]) -> str:
    """TIMEOUT or PREEMPTED, judged by how long the task has run: both come as the same signal.

    SLURM says when the job must end; where it does not, `minutes` of submission.json counts.
    """
    begin, end = os.environ.get("SLURM_JOB_START_TIME", ""), os.environ.get("SLURM_JOB_END_TIME", "")
    if begin.isdigit() and end.isdigit():
        limit = float(end) - float(begin)
    else:
        limit = 60.0 * float(manifest.get("minutes") or 0)
    ahead = float(manifest.get("signal_before", 0)) + LATE
    return TIMEOUT if limit and seconds >= limit - ahead else PREEMPTED


class Stops:
    """The stops of a task, one JSON line each: why, and the step that each run had reached."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, why: str, steps: Mapping[str, int]) -> None:
        append_line(self._path, {"why": why, "steps": dict(steps), "time": time.time()})

    def is_stuck(self, run_id: str) -> bool:
        """Whether a run has met its time limit more often than it is tried again, without a step forward."""
        stops = [stop for stop in map(_parsed, read_text(self._path).splitlines()) if stop.get("why") == TIMEOUT]
        steps = [stop["steps"][run_id] for stop in stops if run_id in stop.get("steps", {})]
        most = RETRIES["timeout"]
        return len(steps) > most and steps[-1] <= steps[-1 - most]


def _parsed(line: str) -> dict[str, Any]:
    """A line as JSON; nothing of one that a kill has cut off."""
    try:
        value = parse_json(line)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
