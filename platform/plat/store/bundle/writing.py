"""Write a bundle: Parquet shards, experiment files and a manifest, completely or not at all."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from plat.errors import BundleError, os_errors_as
from plat.store.bundle.format import FORMAT, KINDS, MANIFEST, Bundle
from plat.store.bundle.reading import read_manifest
from plat.store.disk.durable import replacing

if TYPE_CHECKING:
    import pyarrow

SHARD_BYTES = 1 << 20  # git and its web pages handle files below 1 MiB well


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write the bundle beside `folder` and rename it, replacing an earlier bundle.

    Raises BundleError if `folder` has other content, or if the bundle cannot be written.
    """
    _check_target(folder)
    fix = "free some disk space, make the folder above it writable, or name another with --out DIR"
    with os_errors_as(BundleError, "the bundle could not be written", folder, fix), replacing(folder) as scratch:
        folder.parent.mkdir(parents=True, exist_ok=True)
        (scratch / "experiments" / "papers").mkdir(parents=True)
        contents = dict(_contents(bundle))
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
        (scratch / MANIFEST).write_bytes(_manifest(bundle, contents))
        for empty in (scratch / "experiments" / "papers", scratch / "experiments"):
            if not any(empty.iterdir()):
                empty.rmdir()


def _check_target(folder: Path) -> None:
    """Raise BundleError unless the folder is absent, empty, or a bundle without added files."""
    if not os.path.lexists(folder):
        return
    if folder.is_dir() and not folder.is_symlink():
        present = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
        if not present:
            return
        if MANIFEST in present:
            added = sorted(present - {MANIFEST, *read_manifest(folder)["files"]})
            if not added:
                return
            raise BundleError(
                f"the bundle there has a file that is not its own: {added[0]}",
                where=str(folder),
                fix="move that file away, or name another folder with --out DIR",
            )
    raise BundleError(
        "something that is not a bundle is in the way", where=str(folder), fix="name another folder with --out DIR"
    )


def _manifest(bundle: Bundle, contents: Mapping[str, bytes]) -> bytes:
    """Return the manifest of a bundle with the files `contents` (name -> bytes)."""
    from plat import __version__

    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    manifest = {
        "plat_bundle": FORMAT,
        "written_by": f"plat {__version__}",
        "runs": bundle.tables["runs"].num_rows,
        "experiments": bundle.experiments,
        "overrides": bundle.overrides,
        "files": files,
    }
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()


def _contents(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of every file except the manifest."""
    for kind in KINDS:
        for number, data in enumerate(_shards(bundle.tables[kind]), start=1):
            yield f"{kind}-{number:04d}.parquet", data
    for name, text in sorted(bundle.files.items()):
        yield f"experiments/{name}", text.encode()


def _shards(table: pyarrow.Table) -> Iterator[bytes]:
    """Yield the rows as Parquet files of about equal size below SHARD_BYTES; a table without rows is one file."""
    data = _parquet(table)
    if len(data) < SHARD_BYTES or table.num_rows <= 1:
        yield data
        return
    pieces = min(table.num_rows, len(data) * 5 // (SHARD_BYTES * 4) + 1)  # aims at 4/5 of SHARD_BYTES
    edges = [table.num_rows * piece // pieces for piece in range(pieces + 1)]
    for first, end in itertools.pairwise(edges):
        yield from _shards(table.slice(first, end - first))


def _parquet(table: pyarrow.Table) -> bytes:
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd", compression_level=9, write_statistics=False)
    return buffer.getvalue()
