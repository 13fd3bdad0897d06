"""Small files that survive a kill or a power cut whole: the only place that knows about fsync, rename and link.

Small JSON files that decide a result are written with `to_checked_json`, which adds a checksum of everything else in
them; `read_json` refuses a file whose checksum does not match, and accepts one that has none.

Promised: after `write` or `create` returns, the whole content is on disk under its name; before, the old content is (or
nothing). `create` never replaces: of several processes exactly one succeeds. A crash in between leaves at most a file
whose name begins with `.tmp-`, which every reader ignores.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plat.errors import HomeError, PlatError
from plat.plain_files import NotRegular, read_json_value

CHECKSUM = "checksum"  # the key in a JSON file
SCRATCH = ".tmp-"  # the names of files and folders that are not whole yet begin with it
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux, in fcntl.h and fs.h
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # of a file system without locks
_count = itertools.count()


def scratch_name(path: Path) -> Path:
    """A name beside `path` that no other process or call uses."""
    return path.with_name(f"{SCRATCH}{os.getpid()}-{next(_count)}-{path.name}")


def fsync_folder(folder: Path) -> None:
    """Make renames and links in a folder durable, as far as the file system can (some network ones refuse)."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Let two files or folders swap their names at once; False (and nothing changed) where the system cannot do that.

    Linux can, except on some network file systems.
    """
    import ctypes

    function = getattr(ctypes.CDLL(None), "renameat2", None) if sys.platform == "linux" else None
    names = (os.fsencode(first), os.fsencode(second))
    return function is not None and function(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0


def publish_folder(scratch: Path, target: Path) -> None:
    """Give a folder its name, in place of an earlier one of that name where there is one; durable afterwards."""
    if not target.exists():
        os.rename(scratch, target)
    elif exchange(scratch, target):
        shutil.rmtree(scratch, ignore_errors=True)  # this is the earlier one now
    else:  # a kill between the two leaves none of that name
        remove_folder(target)
        os.rename(scratch, target)
    fsync_folder(target.parent)


def remove_folder(path: Path) -> None:
    """Take a folder away: first its name, so that half of it is never seen."""
    grave = scratch_name(path)
    os.rename(path, grave)
    shutil.rmtree(grave, ignore_errors=True)


def remove_scratch(folder: Path) -> None:
    """Remove what killed processes have left half-written or half-removed in a folder that nobody else writes into."""
    for path in folder.glob(f"{SCRATCH}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


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
    """One line of JSON; lone surrogates survive, because `json.loads` reads them back."""
    return (json.dumps(value, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def to_checked_json(value: dict[str, Any]) -> bytes:
    """As `to_json`, with a checksum that `read_json` verifies and takes out again."""
    as_read_back = json.loads(json.dumps(value))  # keys are strings, tuples are lists
    return to_json({**as_read_back, CHECKSUM: _checksum(as_read_back)})


def _checksum(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a small file; None when it is absent or damaged (a folder or a pipe in its place included)."""
    return load_json(path)[0]


def load_json(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """As `read_json`, and whether a checksum in the file vouches for the content."""
    try:
        value = read_json_value(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegular, ValueError):
        return None, False
    if not isinstance(value, dict):
        return None, False
    checksum = value.pop(CHECKSUM, None)
    return (value if checksum is None or checksum == _checksum(value) else None), checksum is not None


def set_aside(path: Path) -> Path | None:
    """Rename a damaged file (or a folder in its place) to `<name>.damaged-1`, `-2`, ...; the new path.

    None when there was nothing to rename. Nothing is deleted, so that whoever wants to can look at it.
    """
    for number in itertools.count(1):
        target = path.with_name(f"{path.name}.damaged-{number}")
        if not os.path.lexists(target):
            break
    try:
        os.rename(path, target)
    except FileNotFoundError:
        return None
    return target


def append_line(path: Path, value: Any) -> None:
    """Append one JSON line with a single O_APPEND write, so that lines of several processes never mix."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, to_json(value))
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, timeout: float | None = None, busy: PlatError | None = None) -> Iterator[None]:
    """Hold an exclusive lock on a file for the length of the block.

    timeout  seconds to wait while another process holds it; None: as long as it takes
    busy     raised when it is still held after that time

    On a file system without locks a file beside it, created exclusively, does the same; one whose process on this
    machine is gone is removed. HomeError when the file cannot be opened.
    """
    from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

    seconds = -1.0 if timeout is None else timeout  # -1: filelock's spelling of "wait without a limit"
    lock: BaseFileLock = FileLock(path, fallback_to_soft=False)
    try:
        try:
            lock.acquire(seconds)
        except (OSError, NotImplementedError) as error:
            if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                raise
            lock = SoftFileLock(path.with_name(f"{path.name}.exclusive"))
            lock.acquire(seconds)
    except Timeout as error:
        raise busy or HomeError("another process holds the lock", where=str(path), mend="wait for it to end") from error
    except OSError as error:
        raise HomeError(
            f"cannot lock a file of the home directory: {error.strerror or error}",
            where=str(path),
            mend="make it a writable file, or choose another home (--home DIR)",
        ) from error
    try:
        yield
    finally:
        lock.release()
