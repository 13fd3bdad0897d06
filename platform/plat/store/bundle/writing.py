"""Writes a bundle: Parquet shards, experiment files and a manifest, as a whole or not at all."""

from __future__ import annotations

import io
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from plat.errors import BundleError
from plat.store.bundle.format import KINDS, MANIFEST, Bundle
from plat.store.bundle.manifest import manifest_bytes, read_manifest
from plat.store.durable import scratch_name

if TYPE_CHECKING:
    import pyarrow

SHARD_BYTES = 1 << 20  # git and its web pages handle files below 1 MiB well


def write_bundle(bundle: Bundle, folder: Path) -> None:
    """Write the bundle as a new folder, or in place of an earlier bundle there; BundleError when something else is.

    Everything is written beside the folder first and then renamed.
    """
    _check_target(folder)
    scratch = scratch_name(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        (scratch / "experiments" / "papers").mkdir(parents=True)
        contents = dict(_contents(bundle))
        for name, data in contents.items():
            (scratch / name).write_bytes(data)
        (scratch / MANIFEST).write_bytes(manifest_bytes(bundle, contents))
        for empty in (scratch / "experiments" / "papers", scratch / "experiments"):
            if not any(empty.iterdir()):
                empty.rmdir()
        _put_in_place(scratch, folder)
    except OSError as error:
        raise BundleError(
            f"the bundle could not be written: {error.strerror or error}",
            where=str(folder),
            mend="free some disk space, make the folder above it writable, or name another with --out DIR",
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _check_target(folder: Path) -> None:
    """BundleError unless nothing, an empty folder, or a bundle with nothing added to it is there."""
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
                mend="move that file away, or name another folder with --out DIR",
            )
    raise BundleError(
        "something that is not a bundle is in the way", where=str(folder), mend="name another folder with --out DIR"
    )


def _put_in_place(scratch: Path, folder: Path) -> None:
    """Rename the new bundle; an earlier one is moved aside first and deleted last."""
    if not folder.exists():
        os.rename(scratch, folder)
        return
    earlier = scratch_name(folder)
    os.rename(folder, earlier)
    try:
        os.rename(scratch, folder)
    except OSError:
        os.rename(earlier, folder)
        raise
    shutil.rmtree(earlier, ignore_errors=True)


def _contents(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of every file but the manifest."""
    for kind in KINDS:
        for number, data in enumerate(_shards(bundle.tables[kind]), start=1):
            yield f"{kind}-{number:04d}.parquet", data
    for name, text in sorted(bundle.files.items()):
        yield f"experiments/{name}", text.encode()


def _shards(table: pyarrow.Table) -> Iterator[bytes]:
    """The rows as Parquet files below SHARD_BYTES, of about equal size; a table without rows is one file."""
    data = _parquet(table)
    if len(data) < SHARD_BYTES or table.num_rows <= 1:
        yield data
        return
    pieces = min(table.num_rows, len(data) * 5 // (SHARD_BYTES * 4) + 1)  # leaves a quarter of room
    edges = [table.num_rows * piece // pieces for piece in range(pieces + 1)]
    for first, end in itertools.pairwise(edges):
        yield from _shards(table.slice(first, end - first))


def _parquet(table: pyarrow.Table) -> bytes:
    from pyarrow import parquet

    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd", compression_level=9, write_statistics=False)
    return buffer.getvalue()
