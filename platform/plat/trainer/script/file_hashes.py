"""Hash files. The hashes of large ones are remembered in the user's cache folder, so that each is read once.

A remembered hash is used only while the file's inode, size and both times are those under which it was read. You may
delete the folder at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from pathlib import Path

from plat.plain_files import read_json_value
from plat.plugins.plugin_code import DIGITS

CHUNK = 1 << 20  # bytes read at once
LARGE = 16 << 20  # bytes; smaller files are read each time, which takes some milliseconds
YOUNG = 2.0  # seconds; a file that has just changed may change again without a new time


def file_hash(path: Path) -> str:
    """Return the first DIGITS digits of the SHA-256 of a file. Raises OSError if it cannot be read."""
    if path.stat().st_size < LARGE:
        return _digest(path)
    kept, before = _place(path), _state(path)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = read_json_value(kept)
        if known["state"] == before and len(known["hash"]) == DIGITS:
            return str(known["hash"])
    digest = _digest(path)
    if _state(path) == before and time.time() - before[2] / 1e9 > YOUNG:
        scratch = kept.with_name(f".tmp-{os.getpid()}-{kept.name}")
        with contextlib.suppress(OSError):  # the cache is only for speed
            kept.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps({"path": str(path), "state": before, "hash": digest}))
            scratch.replace(kept)
    return digest


def _place(path: Path) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plat", "file-hashes")
    return folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:DIGITS]
