"""Reads a bundle: every file is checked against the manifest before anything is used."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

from plat.errors import BundleError
from plat.plain_files import read_bytes
from plat.spec.leaf import first_line
from plat.store.bundle.format import EXPORT_AGAIN, KINDS, MANIFEST, Bundle, schema
from plat.store.bundle.manifest import read_manifest


def read_bundle(folder: Path) -> Bundle:
    """The whole content, every file checked against the manifest before anything is used; else BundleError."""
    import pyarrow as pa
    from pyarrow import parquet

    manifest = read_manifest(folder)
    contents = {name: _read_file(folder, name, facts) for name, facts in manifest["files"].items()}
    tables = {}
    for kind in KINDS:
        shards = []
        for name in sorted(name for name in contents if name.startswith(f"{kind}-")):
            try:
                shards.append(parquet.read_table(pa.BufferReader(contents[name])).cast(schema(kind)))
            except (pa.ArrowException, ValueError) as error:
                raise BundleError(
                    f"a file of the bundle is not the Parquet file it should be: {first_line(error)[:200]}",
                    where=str(folder / name),
                    mend=EXPORT_AGAIN,
                ) from error
        if not shards:
            raise BundleError(f"the bundle has no file with {kind}", where=str(folder / MANIFEST), mend=EXPORT_AGAIN)
        tables[kind] = pa.concat_tables(shards)
    if tables["runs"].num_rows != manifest["runs"]:
        raise BundleError(
            f"the bundle has {tables['runs'].num_rows} runs, and its manifest names {manifest['runs']}",
            where=str(folder / MANIFEST),
            mend=EXPORT_AGAIN,
        )
    texts = {name.removeprefix("experiments/"): data for name, data in contents.items() if name.endswith(".yaml")}
    files = {name: data.decode(errors="replace") for name, data in texts.items()}
    return Bundle(tables, manifest["experiments"], manifest["overrides"], files)


def _read_file(folder: Path, name: str, facts: Any) -> bytes:
    """The bytes of one file of the bundle, which are those that were written."""
    path = folder / name
    try:
        size, digest = int(facts["bytes"]), str(facts["sha256"])
        _check_before_reading(path, size)
        data = read_bytes(path, size)
    except FileNotFoundError as error:
        raise BundleError("a file of the bundle is missing", where=str(path), mend=EXPORT_AGAIN) from error
    except OSError as error:
        raise BundleError(
            f"a file of the bundle cannot be read: {error.strerror or error}", where=str(path), mend=EXPORT_AGAIN
        ) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BundleError(
            f"the bundle's manifest is damaged at {name!r}", where=str(folder / MANIFEST), mend=EXPORT_AGAIN
        ) from error
    if len(data) != size:
        raise BundleError(
            f"a file of the bundle has {len(data)} bytes instead of {size}: it was cut or replaced",
            where=str(path),
            mend=EXPORT_AGAIN,
        )
    if hashlib.sha256(data).hexdigest() != digest:
        raise BundleError(
            "a file of the bundle is damaged: its checksum is not the manifest's", where=str(path), mend=EXPORT_AGAIN
        )
    return data


def _check_before_reading(path: Path, size: int) -> None:
    """BundleError for what is not a regular file (reading a pipe never ends) or is larger than it should be."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise BundleError(
            "a file of the bundle cannot be read: it is not a regular file", where=str(path), mend=EXPORT_AGAIN
        )
    if status.st_size > size:
        raise BundleError(
            f"a file of the bundle has {status.st_size} bytes instead of {size}: it was cut or replaced",
            where=str(path),
            mend=EXPORT_AGAIN,
        )
