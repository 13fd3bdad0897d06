"""Announce active preparations: work shared by runs, for example the build of a base model.

A preparing process keeps a small file in `<home>/preparations/` while it works, which shows what waiting runs need.
The progress is the last line of the preparation's log.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.plain_files import open_regular
from plat.processes import identification
from plat.store.coordination import submissions
from plat.store.disk.durable import create, read_json, to_json
from plat.store.home import Home

LOG_TAIL = 4096  # bytes of a log that are searched for its last line
COUNTER = re.compile(r"\b(\d+)\s*/\s*(\d+)\b")  # "step 51/1500"


@dataclass(frozen=True)
class Preparation:
    """An active preparation."""

    job: str  # "prepare:<trainer>:<key>"; `Run.prepare` and a run's meta.json have only <key>
    title: str  # in words, for example "the data of digits"
    seconds: float  # since it began
    progress: str  # the last line of its log, "" before the first
    done: int | None  # steps done, from that line, for example 51 of "step 51/1500"; None if it has no such text
    total: int | None  # total steps, likewise
    host: str  # name of its machine
    log: Path  # path of its log

    @property
    def key(self) -> str:
        return self.job.rpartition(":")[2]


@contextlib.contextmanager
def announced(home: Home, job: str, title: str) -> Iterator[None]:
    """Announce a preparation of this process for the length of the block; the block also runs if that fails."""
    path, log = home.preparation(job), home.job_log(job)
    facts = {
        "job": job,
        "title": title,
        **identification.this_process(),
        "task": submissions.this_task(),
        "time": time.time(),
        "log_start": log.stat().st_size if log.exists() else 0,
    }
    written = False
    with contextlib.suppress(OSError):  # the preparation itself reports a full disk
        path.parent.mkdir(parents=True, exist_ok=True)
        if (earlier := read_json(path)) is None or not _may_go_on(home, earlier):
            path.unlink(missing_ok=True)
        written = create(path, to_json(facts), sync=False)
    try:
        yield
    finally:
        if written:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def is_being_prepared(home: Home, job: str) -> bool:
    """Return True if a process may be preparing this now."""
    facts = read_json(home.preparation(job))
    return facts is not None and _may_go_on(home, facts)


def _may_go_on(home: Home, facts: dict[str, Any]) -> bool:
    """Return True if the process that announced a preparation, and its scheduler's task, may still run."""
    if not identification.may_run(facts):
        return False
    return not submissions.is_task_over(facts.get("task"), lambda name: submissions.Submission(home.submissions / name))


def preparations(home: Home) -> list[Preparation]:
    """Return the active preparations of a home, the oldest first; files of killed processes are skipped."""
    try:
        paths = [path for path in home.preparations.iterdir() if path.suffix == ".json"]
    except OSError:
        return []
    found = []
    for facts in (facts for path in paths if (facts := read_json(path)) is not None and _may_go_on(home, facts)):
        job, host = str(facts.get("job", "")), str(facts.get("host", ""))
        line, done, total = progress_of(home, job)
        seconds = max(0.0, time.time() - _number(facts, "time", time.time()))
        title = str(facts.get("title", job))
        found.append(Preparation(job, title, seconds, line, done, total, host, home.job_log(job)))
    return sorted(found, key=lambda preparation: -preparation.seconds)


def progress_of(home: Home, job: str) -> tuple[str, int | None, int | None]:
    """Return (last line of the log, steps done, total steps) of a preparation.

    The counts come from a text such as "step 51/1500" in that line; without one they are None.
    """
    facts = read_json(home.preparation(job)) or {}
    line = _last_line(home.job_log(job), int(_number(facts, "log_start", 0)))
    counted = COUNTER.search(line)
    return (line, int(counted[1]), int(counted[2])) if counted else (line, None, None)


def _number(facts: dict[str, Any], key: str, default: float) -> float:
    """Return a number from a file that may have been edited; the default if it is not a number."""
    value = facts.get(key)
    return value if isinstance(value, int | float) else default


def _last_line(log: Path, start: int) -> str:
    """Return the last line with text after byte `start`, at most 200 characters; "" if there is none."""
    try:
        with open_regular(log) as file:
            end = file.seek(0, 2)
            file.seek(max(start, end - LOG_TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((" ".join(line.split())[:200] for line in reversed(lines) if line.strip()), "")
