"""Read the records of a W&B log (`run-ID.wandb`).

Its framing is that of LevelDB's logs: blocks of 32 KiB with pieces of records, each with its checksum, length and kind.
It is read here because wandb offers no function for it. wandb itself has the messages in the records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plain_files import read_bytes

MAGIC = b":W&B\xe1\xbe"  # at the beginning of a file, before a byte with the version
BLOCK = 1 << 15  # bytes
HEAD = struct.Struct("<IHB")  # checksum, length and kind of a piece
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4  # kinds: a whole record, or a part of one


def wandb_records(path: Path) -> Iterator[Any]:
    """Yield the records of a log. A piece that is cut off at the end, as after a kill, is left out.

    Raises SpecError if the file is no log of W&B, or is damaged.
    """
    from google.protobuf.message import DecodeError
    from wandb.proto import wandb_internal_pb2

    messages: Any = wandb_internal_pb2
    for content in _contents(path):
        try:
            yield messages.Record.FromString(content)
        except DecodeError as error:
            raise _damaged(path, f"a record cannot be read: {error}") from None


def _contents(path: Path) -> Iterator[bytes]:
    """Yield the bytes of every record."""
    try:
        data = read_bytes(path)
    except OSError as error:
        raise SpecError(f"the file cannot be read: {error}", where=str(path), fix="name run-ID.wandb files") from None
    if data[: len(MAGIC)] != MAGIC[: len(data)]:
        raise SpecError("the file is no log of W&B", where=str(path), fix="name a run-ID.wandb file, or its folder")
    position, record = HEAD.size, b""  # the header of the file is as long as that of a piece
    while position + HEAD.size <= len(data):
        if BLOCK - position % BLOCK < HEAD.size:  # too little of the block is left for a piece
            position += BLOCK - position % BLOCK
            continue
        checksum, length, kind = HEAD.unpack_from(data, position)
        piece = data[position + HEAD.size : position + HEAD.size + length]
        if len(piece) < length:
            return
        if zlib.crc32(piece, zlib.crc32(bytes([kind]))) != checksum:
            raise _damaged(path, f"the checksum at byte {position} is wrong")
        record = piece if kind in (FULL, FIRST) else record + piece
        if kind in (FULL, LAST):
            yield record
        position += HEAD.size + length


def _damaged(path: Path, what: str) -> SpecError:
    return SpecError(f"the log is damaged: {what}", where=str(path), fix="take another copy, or leave the run out")
