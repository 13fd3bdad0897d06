"""Make and check manifests of folders: the size and the sha256 of every file. Files may be larger than memory.

A manifest is JSON-able: path of each file below the folder, with `/` between its parts -> {"bytes", "sha256"}. It does
not contain empty folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from plat.errors import RunError
from plat.plain_files import open_regular
from plat.processes.own_process import usable_cores
from plat.store.disk.durable import fsync_folder

READERS = 8  # most files hashed at a time, in threads: hashing releases the GIL

Manifest = dict[str, dict[str, Any]]


def seal(folder: Path) -> Manifest:
    """Flush all files and folders of a new folder to disk; return its manifest, without writing it.

    The manifest has the size and SHA-256 of each file by path. Raises RunError for entries that are neither files nor
    folders, such as links: their content could change.
    """
    files: list[str] = []
    for name, entry in _entries(folder):
        if not entry.is_file(follow_symlinks=False):
            raise RunError(f"{name} is neither a file nor a folder, so it cannot be kept", where=str(folder))
        files.append(name)
    manifest = _hash_all(folder, files, sync=True)
    for path, _, _ in os.walk(folder):
        fsync_folder(Path(path))
    return manifest


def damage(folder: Path, manifest: Mapping[str, Mapping[str, Any]]) -> str:
    """Describe the difference between a folder and its manifest; "" if there is none.

    Additional files count as damage, except files whose name begins with a dot.
    """
    sizes: dict[str, int] = {}
    for name, entry in _entries(folder):
        if name not in manifest and entry.name.startswith("."):
            continue  # file systems and desktops leave such files
        if name not in manifest or not entry.is_file(follow_symlinks=False):
            return f"{name} does not belong there"  # a library may read every file in the folder
        sizes[name] = entry.stat().st_size
    for name, facts in manifest.items():
        if name not in sizes:
            return f"{name} is missing"
        if sizes[name] != facts["bytes"]:
            return f"{name} has {sizes[name]} bytes, not {facts['bytes']}"
    try:
        present = _hash_all(folder, list(manifest))
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}"
    differing = [name for name, facts in manifest.items() if present[name]["sha256"] != facts["sha256"]]
    return f"the checksum of {differing[0]} does not match" if differing else ""


def _entries(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (path below the folder, entry) of everything below a folder except folders, sorted. Links are entries."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(folder / entry.name, f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def _hash_all(folder: Path, names: list[str], sync: bool = False) -> Manifest:
    def facts(name: str) -> dict[str, Any]:
        with open_regular(folder / name) as file:
            if sync:
                os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return {"bytes": os.fstat(file.fileno()).st_size, "sha256": digest}

    if len(names) < 2:
        return {name: facts(name) for name in names}
    with ThreadPoolExecutor(min(READERS, usable_cores(), len(names))) as readers:
        return dict(zip(names, readers.map(facts, names), strict=True))
