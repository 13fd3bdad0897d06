"""Write and read the event spool of one attempt: `events.jsonl`, append-only, one JSON object per line.

    {"n": 25, "run": "5f0c", "step": 12, "time": 1.5e9, "metrics": {"val/success": 0.5}, "crc": "9ae0daaf"}
    {"n": 26, "run": "5f0c", "step": 12, "time": 1.5e9, "table": "rewards", "data": [[0, 1]], "crc": "1c291ca3"}

    n     number of the event in its file, from 1; detects missing lines
    run   id of the run; detects a file of another run
    crc   CRC-32 of the line without it; detects changed lines
    late  true if a checkpoint covers the event only if it was logged before; absent otherwise

Each line appears whole or not at all: the writer removes a line cut short by a full disk; a line cut short by a kill is
the last and has no newline. After `sync()` all lines survive a power cut. NaN and infinities keep Python's JSON
spelling. The reader never raises: it returns events of kind "corrupt" (damaged line), "foreign" (line of another run)
and "unreadable" (the file cannot be read).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from plat.plain_files import open_regular, parse_json
from plat.store.run_directory.paths import run_of
from plat.trainer.api import HEADLINE

_CRC_KEY = b',"crc":"'


@dataclass(frozen=True)
class Event:
    """One line. `kind` is "metrics", "table", "corrupt", "foreign" or "unreadable".

    The last three have step -1; their `data` is the text of the line, the id of the other run, or the reason.
    `number` is `n` of the line, 0 if it is damaged.
    """

    kind: str
    step: int
    time: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    table: str | None = None
    data: Any = None
    number: int = 0
    late: bool = False

    @property
    def is_damaged(self) -> bool:
        return self.kind in ("corrupt", "foreign", "unreadable")


class SpoolWriter:
    """Append events to the spool of one attempt of a run; `count` is the number of its events. A file has one writer.

    The constructor raises OSError if the file cannot be opened. After `close`, appending raises ValueError.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._run = run
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        self._dirty = False
        self.count = len(read_events(path)[0])

    def append(self, step: int, metrics: Mapping[str, float], late: bool = False) -> None:
        """Append the metrics of one step. Values are anything that `float()` accepts. Raises OSError on a full disk."""
        values = {str(key): float(value) for key, value in metrics.items()}
        self._write({"step": int(step), "time": time.time(), **({"late": True} if late else {}), "metrics": values})

    def table(self, name: str, step: int, data: Any) -> None:
        """Append JSON-able data under a name. Raises TypeError for other data, OSError on a full disk."""
        self._write({"step": int(step), "time": time.time(), "table": name, "data": data})

    def replay(self, event: Event) -> None:
        """Append an event of another spool with its original time."""
        content = (
            {"metrics": dict(event.metrics)} if event.table is None else {"table": event.table, "data": event.data}
        )
        self._write({"step": event.step, "time": event.time, **({"late": True} if event.late else {}), **content})

    def _write(self, line: dict[str, Any]) -> None:
        if self._handle is None:
            raise ValueError("the spool is closed")
        text = json.dumps({"n": self.count + 1, "run": self._run, **line}, ensure_ascii=False, separators=(",", ":"))
        body = text.encode(errors="surrogatepass")[:-1]
        data = body + _CRC_KEY + b'%08x"}\n' % zlib.crc32(body)
        written = os.write(self._handle, data)
        self._dirty = True
        if written < len(data):  # the disk is full: remove the piece, or the next line would be appended to it
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, os.fstat(self._handle).st_size - written)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.count += 1

    def sync(self) -> None:
        """Flush all appended lines to disk."""
        if self._dirty and self._handle is not None:
            os.fsync(self._handle)
            self._dirty = False

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_events(path: Path, start: int = 0) -> tuple[list[Event], int]:
    """Return the events on complete lines from byte `start` on, and the offset for the next call.

    An absent file has no events; one that cannot be read has one event, of kind "unreadable". A line is "foreign" if it
    names another run than the file's directory.
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


def parse_line(line: bytes, run: str | None = None) -> Event:
    """Parse one line. A damaged line is of kind "corrupt"; one of another run than `run` (None: any) is "foreign"."""
    try:
        fields = parse_json(line)
        body, _, checksum = line.rpartition(_CRC_KEY)
        if checksum != b'%08x"}' % zlib.crc32(body):
            raise ValueError("the checksum does not match")
        step, when, number, named = int(fields["step"]), float(fields["time"]), int(fields["n"]), str(fields["run"])
        if run is not None and named != run:
            return Event("foreign", -1, 0.0, data=named)
        if "table" in fields:
            return Event("table", step, when, {}, str(fields["table"]), fields["data"], number)
        metrics = {str(key): float(value) for key, value in fields["metrics"].items()}
        return Event("metrics", step, when, metrics, number=number, late=fields.get("late") is True)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Event("corrupt", -1, 0.0, data=line.decode(errors="replace"))


# Read the newest progress in a spool from its end, so that the time does not depend on its length.
#
# Steps never decrease within one attempt but for late events, so the last other line has the newest step. The last line
# that names a measure has its newest value.

BLOCK = 1 << 18  # bytes read at once


@dataclass(frozen=True)
class Newest:
    """The newest step, the newest value of the measure, and the offset in bytes behind the last whole line."""

    step: int | None = None
    value: float | None = None
    offset: int = 0


def read_newest(path: Path, measure: str = HEADLINE) -> Newest:
    """Return the newest step, and value of the metric `measure`, in undamaged lines; None if absent or unreadable."""
    try:
        with open_regular(path) as file:
            return _newest(file, measure, run_of(path))
    except OSError:
        return Newest()


def _newest(file: BinaryIO, measure: str, run: str | None) -> Newest:
    name = json.dumps(measure, ensure_ascii=False).encode()
    step: int | None = None
    end = 0
    for end, lines in _lines_from_end(file):
        for line in reversed(lines):
            if not line.strip() or (step is not None and name not in line):
                continue
            event = parse_line(line, run)
            if not (event.is_damaged or event.late) and step is None:
                step = event.step
            if measure in event.metrics:
                return Newest(step, event.metrics[measure], end)
    return Newest(step, None, end)


def _lines_from_end(file: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
    """Yield (offset behind the last newline, lines) of each block, the last block first; without an incomplete line."""
    position, rest, end = file.seek(0, os.SEEK_END), b"", 0
    while position:
        start = max(0, position - BLOCK)
        file.seek(start)
        data = file.read(position - start) + rest
        rest, *lines = data.split(b"\n")  # the first line begins in the previous block
        if lines and not end:
            end = start + len(data) - len(lines.pop())
        if end:
            yield end, lines
        position = start
    if end:
        yield end, [rest]
