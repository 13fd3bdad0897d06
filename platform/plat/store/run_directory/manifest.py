"""Manifests of folders whose files may be larger than memory: the size and the sha256 of every file.

A manifest is JSON-able: the path of each file below the folder, with `/` between its parts -> {"bytes", "sha256"}.
Files are read in chunks, several at a time. Folders without files are not part of it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from plat.cores import usable_cores
from plat.errors import RunError
from plat.plain_files import open_regular
from plat.store.durable import fsync_folder

READERS = 8  # files that are hashed at a time, at most; a hash of a large file lets other threads run

Manifest = dict[str, dict[str, Any]]


def seal(folder: Path) -> Manifest:
    """The manifest of a folder that was just written; everything in it is on disk afterwards.

    RunError when there is something that is neither a file nor a folder, such as a link: its content could change.
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
    """What is wrong with a folder that had this manifest, in words; "" when nothing is.

    Further files are damage, too, because a library may read whatever lies there, except those whose name begins with a
    dot, which file systems and desktops leave behind.
    """
    sizes: dict[str, int] = {}
    for name, entry in _entries(folder):
        if name not in manifest and entry.name.startswith("."):
            continue
        if name not in manifest or not entry.is_file(follow_symlinks=False):
            return f"{name} does not belong there"
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
    """(path below the folder, entry) of everything in a folder that is no folder itself, sorted; links are entries."""
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
