"""The hash of a large file, remembered beside it until the file changes."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import tempfile
from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path
from typing import IO

from plat_envs.environment_errors import BadEnvironment

SUFFIX = ".sha256.json"
_PARTIAL = ".partial"  # the end of a hidden file's name that is being written


def readable(path: Path, what: str, fix: str) -> Path:
    """Return the path of a file. Raises BadEnvironment, which says `what` it is and how to get it, if there is none."""
    if not path.is_file():
        raise BadEnvironment(f"there is no {what}", where=str(path), fix=fix)
    return path


def stamp(path: Path) -> list[int]:
    """Return the size and the time of the last change, which tell one content of a file from another."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file. Reading 64 GB takes minutes, so it is kept beside the file if that can be written.

    Raises BadEnvironment if the file cannot be read.
    """
    beside = path.with_name(path.name + SUFFIX)
    try:
        now = stamp(path)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            kept = json.loads(beside.read_text())
            if kept["stamp"] == now and isinstance(kept["sha256"], str):
                return str(kept["sha256"])
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadEnvironment(f"a file cannot be read: {error.strerror}", where=str(path)) from None
    with contextlib.suppress(BadEnvironment), written(beside) as out:
        out.write(json.dumps({"stamp": now, "sha256": found}).encode())
    return found


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file to write. It replaces `path` at the end of the block, and is removed after an error.

    What a killed process has left of the same file is removed first. Raises BadEnvironment if it cannot be written.
    """
    try:
        _remove_leftovers(path)
        file = _partial(path)
        try:
            with file:
                os.fchmod(file.fileno(), 0o644)
                yield file
                file.flush()
                os.fsync(file.fileno())  # some file systems only now notice that there is no room
                os.replace(file.name, path)  # while it is locked
        except BaseException:
            os.unlink(file.name)
            raise
    except OSError as error:
        what = f"a file cannot be written: {error.strerror}"
        raise BadEnvironment(what, where=str(path), fix="choose a folder that exists and has room") from None


def _partial(path: Path) -> IO[bytes]:
    """Return a new hidden file beside `path`, locked for as long as it is open, or its process lives."""
    while True:
        file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=_PARTIAL, delete=False)
        with contextlib.suppress(OSError):  # a file system without locks: then leftovers stay, too
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(file.name):  # or else another process took it for a leftover, before the lock
            return file
        file.close()


def _remove_leftovers(path: Path) -> None:
    """Remove the hidden files of `path` that nobody has locked: their processes are dead."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*{_PARTIAL}"):
        with contextlib.suppress(OSError), name.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name.unlink()
