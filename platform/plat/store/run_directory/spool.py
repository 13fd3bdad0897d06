"""The event spool of one attempt: `events.jsonl`, append-only, one JSON object a line.

    {"n": 25, "run": "5f0c", "step": 12, "time": 1.5e9, "metrics": {"val/success": 0.5}, "crc": "9ae0daaf"}
    {"n": 26, "run": "5f0c", "step": 12, "time": 1.5e9, "table": "rewards", "data": [[0, 1]], "crc": "1c291ca3"}

`n` is the number of the event in its file, from 1, so that a missing line is noticed; `run` is the id of the run, so
that a file of another run is; `crc` is the CRC-32 of the line without it, so that a changed one is. Lines of plat 0.1
have none of these, lines of runs begun before format 3 (`plat.store.run_directory.own_files`) no `run`; both are read.

Promised: a line appears whole or not at all (a line cut short by a full disk is taken back; one cut short by a kill
is the last and has no newline). `sync()` makes every line so far survive a power cut. NaN and infinities keep
Python's JSON spelling. The reader never raises because of a damaged line or file: it reports a damaged line as an event
of kind "corrupt", a line of another run as one of kind "foreign", and goes on; a file that cannot be read is one event
of kind "unreadable".
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.plain_files import open_regular, parse_json
from plat.store.run_directory.paths import run_of

_CRC_KEY = b',"crc":"'
_CRC_LENGTH = len('01234567"}')


@dataclass(frozen=True)
class Event:
    """One line. `kind` is "metrics", "table", "corrupt", "foreign" or "unreadable".

    The last three have step -1, and in `data` the text of the line, the id of the other run, or the reason.
    `number` and `run` are `n` and `run` of the line, None where it has none.
    """

    kind: str
    step: int
    time: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None
    data: Any = None
    number: int | None = None
    run: str | None = None

    @property
    def is_damaged(self) -> bool:
        return self.kind in ("corrupt", "foreign", "unreadable")


class SpoolWriter:
    """Appends events; `count` is how many the file has. One writer per file: an attempt belongs to one process.

    run  the id that each line names; without it (before format 3) lines name none
    """

    def __init__(self, path: Path, run: str | None = None) -> None:
        self._run = {} if run is None else {"run": run}
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._dirty = False
        self.count = len(read_events(path)[0])

    def append(self, step: int, metrics: Mapping[str, float]) -> None:
        """Metrics of one step. Values are anything `float()` takes."""
        values = {str(key): float(value) for key, value in metrics.items()}
        self._write({"step": int(step), "time": time.time(), "metrics": values})

    def table(self, name: str, step: int, data: Any) -> None:
        """JSON-able data under a name; TypeError otherwise."""
        self._write({"step": int(step), "time": time.time(), "table": name, "data": data})

    def replay(self, event: Event) -> None:
        """An event that was read elsewhere, with the time at which it was logged there."""
        content = (
            {"metrics": dict(event.metrics)} if event.table is None else {"table": event.table, "data": event.data}
        )
        self._write({"step": event.step, "time": event.time, **content})

    def _write(self, line: dict[str, Any]) -> None:
        if self._handle is None:
            raise ValueError("the spool is closed")
        data = _with_checksum({"n": self.count + 1, **self._run, **line})
        written = os.write(self._handle, data)
        self._dirty = True
        if written < len(data):  # the disk is full: take the piece back, or it would swallow the next line
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.count += 1

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
    """Events on complete lines from byte `start` on, and the offset to go on from. An absent file has no events.

    A line that names another run than the one whose directory the file lies in is "foreign".
    """
    try:
        with open_regular(path) as file:
            file.seek(start)
            data = file.read()
    except FileNotFoundError:
        return [], start
    except OSError as error:
        return [Event("unreadable", -1, 0.0, data=error.strerror or str(error))], start
    end, run = data.rfind(b"\n") + 1, run_of(path)
    return [parse_line(line, run) for line in data[:end].split(b"\n")[:-1] if line.strip()], start + end


def _with_checksum(line: dict[str, Any]) -> bytes:
    """The line's bytes: JSON, with the CRC-32 of what comes before it as the last key."""
    body = json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")[:-1]
    return body + _CRC_KEY + b'%08x"}\n' % zlib.crc32(body)


def parse_line(line: bytes, run: str | None = None) -> Event:
    """One line of the spool of a run; a damaged one becomes an event of kind "corrupt", another run's "foreign"."""
    try:
        fields = parse_json(line)
        if not _is_intact(line, fields):
            raise ValueError("the checksum does not match")
        step, when, number, named = int(fields["step"]), float(fields["time"]), fields.get("n"), fields.get("run")
        if run is not None and named not in (None, run):
            return Event("foreign", -1, 0.0, data=str(named), number=number, run=str(named))
        if "table" in fields:
            return Event("table", step, when, {}, str(fields["table"]), fields["data"], number, named)
        metrics = {str(key): float(value) for key, value in fields["metrics"].items()}
        return Event("metrics", step, when, metrics, None, None, number, named)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Event("corrupt", -1, 0.0, data=line.decode(errors="replace"))


def _is_intact(line: bytes, fields: dict[str, Any]) -> bool:
    """Whether the checksum matches; a line without one must be of plat 0.1, so it may only have the keys of those."""
    body, key, checksum = line.rpartition(_CRC_KEY)
    if key and len(checksum) == _CRC_LENGTH:
        return checksum == b'%08x"}' % zlib.crc32(body)
    return fields.keys() <= {"step", "time", "metrics", "table", "data"}
