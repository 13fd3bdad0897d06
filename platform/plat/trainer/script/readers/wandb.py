"""Read what a script logs with W&B's client in its offline mode. Needs the extra `wandb`."""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plain_files import open_regular, parse_json
from plat.trainer.script.readers.objects import Logged, Refuse, flat, json_number

PATTERN = "*.wandb"
LATE = 5.0  # seconds
OF_WANDB = ("_runtime", "_timestamp", "_wandb", "_step")  # metrics that W&B adds, about the time


class WandbFiles:
    """The metrics in all logs of W&B below a folder."""

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self._folder, self._refuse = folder, refuse
        self._logs: dict[Path, WandbLog] = {}
        self._ended: set[Path] = set()  # logs that say how their run has ended

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call, of one log after the other.

        `is_last`: wait up to LATE seconds for the process of W&B that writes the logs, after the script has ended.
        """
        until = time.monotonic() + LATE
        yield from self._new(False)
        while is_last and not (self._logs and self._ended >= self._logs.keys()) and time.monotonic() < until:
            time.sleep(0.1)
            yield from self._new(False)
        if is_last:
            yield from self._new(True)

    def _new(self, is_last: bool) -> Iterator[Logged]:
        for path in sorted(self._folder.rglob(PATTERN)):
            if path.is_symlink() or path.parent.is_symlink():  # `latest-run`
                continue
            log = self._logs.setdefault(path, WandbLog(path))
            try:
                for record in log.records():
                    kind = record.WhichOneof("record_type")
                    if kind == "exit":
                        self._ended.add(path)
                    elif kind == "history":
                        logged = history_of(record.history)
                        own = {name: value for name, value in logged.metrics.items() if name not in OF_WANDB}
                        yield logged._replace(metrics=own, counter=path.stem)
            except SpecError as error:
                if is_last:
                    self._refuse(error.what, error.where or "", error.fix or "")


def history_of(history: Any) -> Logged:
    """Return the numbers of a history record; those in a mapping by dotted names."""
    metrics = dict(_numbers(history.item))
    return Logged(history.step.num, metrics, metrics.get("_timestamp", 0.0))


def parsed(text: str) -> Any:
    """Return the value of a JSON text in a record; the text itself if it is none."""
    try:
        return parse_json(text)
    except ValueError:
        return text


def _numbers(items: Iterable[Any]) -> Iterator[tuple[str, float]]:
    for item in items:
        name = ".".join(item.nested_key) or item.key
        value = parsed(item.value_json)
        nested = flat({name: value}) if isinstance(value, dict) and "_type" not in value else {name: value}
        for key, inner in nested.items():
            if (number := json_number(inner)) is not None:
                yield key, number


# Read the records of a W&B log (`run-ID.wandb`).
#
# Its framing is that of LevelDB's logs: blocks of 32 KiB with pieces of records, each with its checksum, length and
# kind. It is read here because wandb offers no function for it. wandb itself has the messages in the records.

MAGIC = b":W&B\xe1\xbe"  # at the beginning of a file, before a byte with the version
BLOCK = 1 << 15  # bytes
HEAD = struct.Struct("<IHB")  # checksum, length and kind of a piece
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4  # kinds: a whole record, or a part of one


class WandbLog:
    """The records of one log, as they are written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = HEAD.size  # of the next record; the header of the file is as long as that of a piece

    def records(self) -> Iterator[Any]:
        """Yield the records since the last call. A record that is cut off at the end, as after a kill, is left out.

        Raises SpecError if the file is no log of W&B, or is damaged.
        """
        from google.protobuf.message import DecodeError
        from wandb.proto import wandb_internal_pb2

        messages: Any = wandb_internal_pb2
        for content in self._contents():
            try:
                yield messages.Record.FromString(content)
            except DecodeError as error:
                raise _damaged(self._path, f"a record cannot be read: {error}") from None

    def _contents(self) -> Iterator[bytes]:
        """Yield the bytes of every new record."""
        try:
            with open_regular(self._path) as file:
                head = file.read(len(MAGIC))
                file.seek(self._position)
                data = file.read()
        except OSError as error:
            fix = "name run-ID.wandb files"
            raise SpecError(f"the file cannot be read: {error}", where=str(self._path), fix=fix) from None
        if head != MAGIC[: len(head)]:
            fix = "name a run-ID.wandb file, or its folder"
            raise SpecError("the file is no log of W&B", where=str(self._path), fix=fix)
        start, position, record = self._position, self._position, b""
        while position - start + HEAD.size <= len(data):
            if BLOCK - position % BLOCK < HEAD.size:  # too little of the block is left for a piece
                position += BLOCK - position % BLOCK
                continue
            checksum, length, kind = HEAD.unpack_from(data, position - start)
            piece = data[position - start + HEAD.size : position - start + HEAD.size + length]
            if len(piece) < length:
                return
            if zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
                raise _damaged(self._path, f"the checksum at byte {position} is wrong")
            record = piece if kind in (FULL, FIRST) else record + piece
            position += HEAD.size + length
            if kind in (FULL, LAST):
                self._position = position
                yield record


def _damaged(path: Path, what: str) -> SpecError:
    return SpecError(f"the log is damaged: {what}", where=str(path), fix="take another copy, or leave the run out")
