"""The event spool of one attempt: `events.jsonl`, append-only, one JSON object a line.

    {"step": 12, "time": 1.5e9, "metrics": {"val/success": 0.5}}
    {"step": 12, "time": 1.5e9, "table": "reward_matrix", "data": [[0, 1]]}

Promised: a line appears whole or not at all (a line cut short by a full disk is taken back; one cut short by a kill
is the last and has no newline). `sync()` makes every line so far survive a power cut. NaN and infinities keep
Python's JSON spelling. The reader never raises because of a damaged line: it reports it as an
event of kind "corrupt" and goes on.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    """One line. `kind` is "metrics", "table" or "corrupt"; a corrupt one has step -1 and its text in `data`."""

    kind: str
    step: int
    time: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None
    data: Any = None


class SpoolWriter:
    """Appends events. One writer per file: an attempt's folder belongs to one process."""

    def __init__(self, path: Path) -> None:
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._dirty = False

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of one step. Values are anything `float()` takes."""
        values = {str(key): float(value) for key, value in metrics.items()}
        self._write({"step": int(step), "time": time.time(), "metrics": values})

    def table(self, name: str, step: int, data: Any) -> None:
        """JSON-able data under a name; TypeError otherwise."""
        self._write({"step": int(step), "time": time.time(), "table": name, "data": data})

    def _write(self, line: dict[str, Any]) -> None:
        if self._handle is None:
            raise ValueError("the spool is closed")
        data = (json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n").encode()
        written = os.write(self._handle, data)
        self._dirty = True
        if written < len(data):  # the disk is full: take the piece back, or it would swallow the next line
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def sync(self) -> None:
        """Everything appended so far is on disk when this returns."""
        if self._dirty and self._handle is not None:
            os.fsync(self._handle)
            self._dirty = False

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_events(path: Path, start: int = 0) -> tuple[list[Event], int]:
    """Events on complete lines from byte `start` on, and the offset to go on from. An absent file has no events."""
    try:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], start
    end = data.rfind(b"\n") + 1
    return [parse_line(line) for line in data[:end].split(b"\n")[:-1] if line.strip()], start + end


def parse_line(line: bytes) -> Event:
    """One line of a spool; a damaged one becomes an event of kind "corrupt"."""
    try:
        found = json.loads(line)
        step, when = int(found["step"]), float(found["time"])
        if "table" in found:
            return Event("table", step, when, table=str(found["table"]), data=found["data"])
        metrics = {str(key): float(value) for key, value in found["metrics"].items()}
        return Event("metrics", step, when, metrics)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Event("corrupt", -1, 0.0, data=line.decode(errors="replace"))
