"""Preparations that are going on: work shared by runs, for example a base model that is being built.

Whoever prepares something keeps a small file in `<home>/preparations/` for as long as it takes, so that everybody who
looks at the home can say what the runs that need it are waiting for. The progress is the last line of the
preparation's log.
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
from plat.store import process, submissions
from plat.store.durable import create, read_json, to_json
from plat.store.home import Home

LOG_TAIL = 4096  # bytes of a log that are searched for its last line
COUNTER = re.compile(r"\b(\d+)\s*/\s*(\d+)\b")  # "step 51/1500"


@dataclass(frozen=True)
class Preparation:
    """A preparation that is going on.

    job       "prepare:<trainer>:<key>"; `key` alone is what `Run.prepare` and a run's meta.json name
    title     in words, for example "base model for qwen2.5-3b (stand-in)"
    seconds   since it began
    progress  the last line of its log, "" before the first
    done      how many steps are done, and
    total     of how many, where that line says so, for example "step 51/1500"
    host      where it runs
    log       the whole log
    """

    job: str
    title: str
    seconds: float
    progress: str
    done: int | None
    total: int | None
    host: str
    log: Path

    @property
    def key(self) -> str:
        return self.job.rpartition(":")[2]


@contextlib.contextmanager
def announced(home: Home, job: str, title: str) -> Iterator[None]:
    """Say, for the length of the block, that this process prepares something."""
    path, log = home.preparation(job), home.job_log(job)
    facts = {
        "job": job,
        "title": title,
        **process.this_process(),
        "task": submissions.this_task(),
        "time": time.time(),
        "log_start": log.stat().st_size if log.exists() else 0,
    }
    written = False
    with contextlib.suppress(OSError):  # a full disk: the preparation itself will say so
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
    """Whether somebody is preparing this now, as far as that is known here."""
    facts = read_json(home.preparation(job))
    return facts is not None and _may_go_on(home, facts)


def _may_go_on(home: Home, facts: dict[str, Any]) -> bool:
    """Whether the process that has announced a preparation may still run.

    Not when it belonged to a scheduler's task that is over, or to an earlier start of the task that asks.
    """
    if not process.may_run(facts):
        return False
    task, own = facts.get("task"), submissions.this_task()
    if not isinstance(task, dict):
        return True
    if own is not None and (own["submission"], own["task"]) == (task.get("submission"), task.get("task")):
        return bool(own["restart"] <= _number(task, "restart", 0))
    return not submissions.Submission(home.submissions / str(task.get("submission"))).is_over(task.get("task"))


def preparations(home: Home) -> list[Preparation]:
    """What is being prepared in this home, the oldest first. Files that a killed process has left are passed over."""
    try:
        paths = [path for path in home.preparations.iterdir() if path.suffix == ".json"]
    except OSError:
        return []
    going_on = [facts for path in paths if (facts := read_json(path)) is not None and _may_go_on(home, facts)]
    return sorted((_read(home, facts) for facts in going_on), key=lambda preparation: -preparation.seconds)


def progress_of(home: Home, job: str) -> tuple[str, int | None, int | None]:
    """(last line of its log, steps done, of how many) of a preparation that is going on."""
    facts = read_json(home.preparation(job)) or {}
    line = _last_line(home.job_log(job), int(_number(facts, "log_start", 0)))
    counted = COUNTER.search(line)
    return (line, int(counted[1]), int(counted[2])) if counted else (line, None, None)


def _read(home: Home, facts: dict[str, Any]) -> Preparation:
    job = str(facts.get("job", ""))
    line, done, total = progress_of(home, job)
    seconds = max(0.0, time.time() - _number(facts, "time", time.time()))
    host = str(facts.get("host", ""))
    return Preparation(job, str(facts.get("title", job)), seconds, line, done, total, host, home.job_log(job))


def _number(facts: dict[str, Any], key: str, default: float) -> float:
    """A number in a file that may have been edited; the default where it is none."""
    value = facts.get(key)
    return value if isinstance(value, int | float) else default


def _last_line(log: Path, start: int) -> str:
    """The last line with text after byte `start`, shortened; "" when there is none."""
    try:
        with open_regular(log) as file:
            end = file.seek(0, 2)
            file.seek(max(start, end - LOG_TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((" ".join(line.split())[:200] for line in reversed(lines) if line.strip()), "")
