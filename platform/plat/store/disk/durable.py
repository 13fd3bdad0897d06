"""Write small files and folders so that a kill or a power cut leaves the old content or the new one.

A crash leaves at most a file whose name begins with `.tmp-`, which every reader ignores.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, PlatError, os_errors_as
from plat.plain_files import NotRegular, read_json_value
from plat.processes.locks import LOCK_MODE, NO_LOCKS

if TYPE_CHECKING:
    from filelock import BaseFileLock

CHECKSUM = "checksum"  # the key in a JSON file
SCRATCH = ".tmp-"  # the names of files and folders that are not whole yet begin with it
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux, in fcntl.h and fs.h
PATIENCE = 2.0  # seconds after which it is said what is waited for
_count = itertools.count()
waiting = logging.getLogger("plat.waiting")


def scratch_name(path: Path) -> Path:
    """Return a path beside `path` that no other call of a process on this machine returns."""
    return path.with_name(f"{SCRATCH}{os.getpid()}-{next(_count)}-{path.name}")


def fsync_folder(folder: Path) -> None:
    """Make renames and links in a folder durable. Ignores errors, because some network file systems refuse."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def exchange(first: Path, second: Path) -> bool:
    """Swap the names of two files or folders atomically; return True, or False with nothing changed if that fails."""
    import ctypes

    function = getattr(ctypes.CDLL(None), "renameat2", None)
    names = (os.fsencode(first), os.fsencode(second))
    return function is not None and function(AT_FDCWD, names[0], AT_FDCWD, names[1], RENAME_EXCHANGE) == 0


def publish_folder(scratch: Path, target: Path) -> None:
    """Rename the folder `scratch` to `target` durably, and delete an earlier folder of that name.

    The replacement is atomic if the system can `exchange`; else a kill may leave no folder of that name.
    """
    if not target.exists():
        os.rename(scratch, target)
    elif exchange(scratch, target):
        shutil.rmtree(scratch, ignore_errors=True)  # this is the earlier one now
    else:
        earlier = scratch_name(target)
        os.rename(target, earlier)  # a kill between the two renames leaves no folder of that name
        try:
            os.rename(scratch, target)
        except OSError:
            os.rename(earlier, target)
            raise
        shutil.rmtree(earlier, ignore_errors=True)
    fsync_folder(target.parent)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield an absent path beside `target`. The block makes a folder there, which `publish_folder` renames to `target`.

    If the block raises, `target` stays as it was.
    """
    scratch = scratch_name(target)
    try:
        yield scratch
        publish_folder(scratch, target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def replace_report(write: Callable[[Path], dict[str, Path]], folder: Path) -> dict[str, Path]:
    """Replace `folder`, including any other files in it, by a new report; return file name -> path in `folder`.

    write   makes the folder at the given path, writes the report into it, and returns file name -> path

    Raises HomeError if the report cannot be written; the earlier one then stays.
    """
    fix = "make the folder writable, or choose another with --out DIR"
    with os_errors_as(HomeError, "cannot replace the report", folder, fix), replacing(folder) as scratch:
        names = write(scratch)
    return {name: folder / name for name in names}


def remove_folder(path: Path) -> None:
    """Rename a folder, so that no reader sees half of it, and delete it. Raises OSError if it cannot be renamed."""
    grave = scratch_name(path)
    os.rename(path, grave)
    shutil.rmtree(grave, ignore_errors=True)


def remove_scratch(folder: Path) -> None:
    """Remove leftovers of killed processes from a folder into which no other process writes."""
    for path in folder.glob(f"{SCRATCH}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_all(handle: int, data: bytes) -> None:
    """Call `os.write` until all of `data` is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def write_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file in place, not atomically: rename it or its folder later. With `sync`, flush it to disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        write_all(handle, data)
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Create or replace a file atomically; with `sync` the content is on disk when it returns."""
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
    """Create a file atomically; return False, with nothing changed, if the name is taken."""
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
    """Return one line of JSON with its newline, in UTF-8. Lone surrogates are kept: `json.loads` reads them back."""
    return (json.dumps(value, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def to_checked_json(value: dict[str, Any]) -> bytes:
    """Return `to_json` of the value with the key CHECKSUM added, which `read_json` verifies and removes."""
    as_read_back = json.loads(json.dumps(value))  # keys are strings, tuples are lists
    return to_json({**as_read_back, CHECKSUM: _checksum(as_read_back)})


def _checksum(value: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a small file, None if it is absent, damaged or no file. OSError if unreadable."""
    return load_json(path)[0]


def load_json(path: Path) -> tuple[dict[str, Any] | None, bool]:
    """Return what `read_json` returns, and True if the file has a checksum, right or wrong."""
    try:
        value = read_json_value(path)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, NotRegular, ValueError):
        return None, False
    if not isinstance(value, dict):
        return None, False
    checksum = value.pop(CHECKSUM, None)
    return (value if checksum is None or checksum == _checksum(value) else None), checksum is not None


def set_aside(path: Path) -> Path | None:
    """Rename a damaged file (or a folder in its place) to `<name>.damaged-1`, `-2`, ...; return the new path.

    Return None if there is nothing to rename. Nothing is deleted, so that a user can inspect it.
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
    """Append one JSON line with one O_APPEND write, so that lines of processes do not mix. A full disk may cut it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    try:
        os.write(handle, to_json(value))
    finally:
        os.close(handle)


@contextlib.contextmanager
def locked(path: Path, timeout: float | None = None, busy: PlatError | None = None) -> Iterator[None]:
    """Hold an exclusive lock on a file for the length of the block.

    On a file system without locks, the lock is a file `<name>.exclusive` beside it. If the process that created that
    file was of this machine and is gone, the file is removed.

    timeout  seconds to wait while another process holds the lock; None waits without a limit. After PATIENCE seconds
             the logger `plat.waiting` gets a line that names the file
    busy     error to raise after that time; None raises a HomeError that names the file

    Raises HomeError if the file cannot be opened.
    """
    from filelock import FileLock, SoftFileLock, Timeout

    lock: BaseFileLock = FileLock(path, mode=LOCK_MODE, fallback_to_soft=False)
    fix = "make it a writable file, or choose another home (--home DIR)"
    with os_errors_as(HomeError, "cannot lock a file of the home directory", path, fix):
        try:
            try:
                _acquire(lock, path, timeout)
            except (OSError, NotImplementedError) as error:
                if isinstance(error, OSError) and error.errno not in NO_LOCKS:
                    raise
                lock = SoftFileLock(path.with_name(f"{path.name}.exclusive"))
                _acquire(lock, path, timeout)
        except Timeout as error:
            wait = HomeError("another process holds the lock", where=str(path), fix="wait for it to end")
            raise busy or wait from error
    try:
        yield
    finally:
        lock.release()


def _acquire(lock: BaseFileLock, path: Path, timeout: float | None) -> None:
    """Acquire a lock within `timeout` seconds (None: without a limit). Raises filelock's Timeout."""
    from filelock import Timeout

    try:
        lock.acquire(PATIENCE if timeout is None else min(timeout, PATIENCE))
    except Timeout:
        if timeout is not None and timeout <= PATIENCE:
            raise
        waiting.warning("waiting for another process, which holds the lock %s", path)
        lock.acquire(-1.0 if timeout is None else timeout - PATIENCE)


# Find the type of the file system that holds a folder.

# File systems that only one machine mounts at a time.
LOCAL = {
    "apfs", "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "hfs", "jfs", "ntfs", "ntfs3", "overlay",
    "reiserfs", "ufs", "vfat", "xfs", "zfs",
}  # fmt: skip


def file_system(folder: Path) -> str:
    """Return the file system's type in lower case, for example "ext4"; "" if it is not known."""
    import psutil

    try:
        mounts = {Path(part.mountpoint): part.fstype.lower() for part in psutil.disk_partitions(all=True)}
        folder = folder.resolve()
    except OSError:
        return ""
    nearest = next((parent for parent in (folder, *folder.parents) if parent in mounts), None)
    return "" if nearest is None else mounts[nearest]


def is_local(folder: Path) -> bool:
    """Return True if a folder is certainly on a disk of this machine; False in doubt."""
    return file_system(folder) in LOCAL
