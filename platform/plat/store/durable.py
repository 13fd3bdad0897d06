"""Small files that survive a kill or a power cut whole: the only place that knows about fsync, rename and link.

Promised: after `write` or `create` returns, the whole content is on disk under its name; before, the old content is (or
nothing). `create` never replaces: of several processes exactly one succeeds. A crash in between leaves at most a file
whose name begins with `.tmp-`, which every reader ignores.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_count = itertools.count()


def scratch_name(path: Path) -> Path:
    """A name beside `path` that no other process or call uses."""
    return path.with_name(f".tmp-{os.getpid()}-{next(_count)}-{path.name}")


def fsync_folder(folder: Path) -> None:
    """Make renames and links in a folder durable, as far as the file system can (some network ones refuse)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    """`os.write` until everything is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a new file in place (for files inside a folder that is renamed as a whole)."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_all(handle, data)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Create or replace a file atomically."""
    scratch = scratch_name(path)
    try:
        write_file(scratch, data, sync=sync)
        os.replace(scratch, path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    if sync:
        fsync_folder(path.parent)


def create(path: Path, data: bytes, *, sync: bool = True) -> bool:
    """Create a file with all its content at once; False (and nothing changed) when the name is taken."""
    scratch = scratch_name(path)
    try:
        write_file(scratch, data, sync=sync)
        os.link(scratch, path)
    except FileExistsError:
        return False
    finally:
        scratch.unlink(missing_ok=True)
    if sync:
        fsync_folder(path.parent)
    return True


def to_json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False) + "\n").encode()


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a small file; None when it is absent or damaged."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line with a single O_APPEND write, so that lines of several processes never mix."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, to_json(value))
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock (flock) on a file for the length of the block, waiting for it if needed."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
