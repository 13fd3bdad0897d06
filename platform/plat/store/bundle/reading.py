"""Read a bundle; every file is checked against the manifest, and the manifest itself, before any content is used."""

from __future__ import annotations

import hashlib
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.characters import forbidden_character
from plat.errors import BundleError
from plat.plain_files import parse_json, read_bytes
from plat.spec.composition.leaf import first_line
from plat.store.bundle.format import FORMAT, KINDS, MANIFEST, Bundle, damaged, schema

if TYPE_CHECKING:
    import pyarrow

LARGEST = 1 << 28  # bytes of a manifest; 100,000 runs take a hundredth of it
MOST_UNPACKED_FILE = 1 << 27  # bytes in memory of a Parquet file, which is smaller than 1 MiB on disk
MOST_UNPACKED = 1 << 32  # of all Parquet files of a bundle
_FILE_NAME = re.compile(
    r"(?:runs|metrics|tables)-\d{4,}\.parquet|experiments/(?:papers/)?[^/\\\x00-\x1f\x7f-\x9f]+\.yaml"
)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and forbidden_character(value) is None


def _is_experiment(value: Any) -> bool:
    """Return True if the value has the form of an entry of `Bundle.experiments`."""
    if not isinstance(value, dict) or not isinstance(value.get("runs"), list):
        return False
    return all(map(_is_name, [value.get("name"), value.get("title"), *value["runs"]]))


_MANIFEST_TYPES: dict[str, Callable[[Any], bool]] = {
    "runs": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "experiments": lambda value: isinstance(value, list) and all(map(_is_experiment, value)),
    "overrides": lambda value: isinstance(value, list) and all(map(_is_name, value)),
    "files": lambda value: isinstance(value, dict),
}


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the checked manifest. Raises BundleError if it is missing, damaged, or of a newer format."""
    path, fix = folder / MANIFEST, "name the folder that `plat export` made"
    try:
        manifest = parse_json(read_bytes(path, LARGEST))
        version = manifest["plat_bundle"]
        if isinstance(version, bool) or not isinstance(version, int):
            raise TypeError("the format must be a whole number")
    except FileNotFoundError as error:
        is_folder = "this folder is not a bundle: it has no manifest.json"
        problem = is_folder if folder.is_dir() else "there is no such bundle"
        raise BundleError(problem, where=str(folder), fix=fix) from error
    except NotADirectoryError as error:
        raise BundleError("a bundle is a folder, and this is a file", where=str(folder), fix=fix) from error
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise damaged("the bundle's manifest cannot be read", path) from error
    if version < 1:
        raise damaged(f"the bundle's manifest is damaged: there is no format {version}", path)
    if version > FORMAT:
        raise BundleError(
            f"the bundle was written by a newer plat (format {version}, this one knows {FORMAT})",
            where=str(path),
            fix="upgrade plat, or let the one that wrote it export what you need",
        )
    wrong = [key for key, holds in _MANIFEST_TYPES.items() if not holds(manifest.get(key))]
    names = () if wrong else manifest["files"]
    wrong += [str(name) for name in names if not isinstance(name, str) or not _FILE_NAME.fullmatch(name)]
    if wrong:
        raise damaged(f"the bundle's manifest is damaged at {wrong[0]!r}", path)
    return manifest  # type: ignore[no-any-return]


def read_bundle(folder: Path) -> Bundle:
    """Return the content of a bundle. Raises BundleError that names the file if one is missing, damaged or replaced."""
    import pyarrow as pa

    manifest = read_manifest(folder)
    contents = {name: _read_file(folder, name, facts) for name, facts in manifest["files"].items()}
    tables, left = {}, MOST_UNPACKED
    for kind in KINDS:
        shards = []
        for name in sorted(name for name in contents if name.startswith(f"{kind}-")):
            shards.append(_table(contents[name], kind, min(left, MOST_UNPACKED_FILE), folder / name))
            left -= shards[-1].nbytes
        if not shards:
            raise damaged(f"the bundle has no file with {kind}", folder / MANIFEST)
        tables[kind] = pa.concat_tables(shards)
    runs = tables["runs"].num_rows
    if runs != manifest["runs"]:
        what = f"the bundle has {runs} runs, and its manifest names {manifest['runs']}"
        raise damaged(what, folder / MANIFEST)
    texts = {name.removeprefix("experiments/"): data for name, data in contents.items() if name.endswith(".yaml")}
    files = {name: data.decode(errors="replace") for name, data in texts.items()}
    return Bundle(tables, manifest["experiments"], manifest["overrides"], files)


def _table(data: bytes, kind: str, limit: int, path: Path) -> pyarrow.Table:
    """Return the rows of a Parquet file. Raises BundleError if it is damaged or takes more than `limit` bytes unpacked.

    A few kilobytes can unpack to gigabytes: the footer tells the size of the pages, and a text that many rows share is
    counted for each of them before it is copied.
    """
    import pyarrow as pa
    from pyarrow import parquet

    wanted = schema(kind)
    try:
        texts = [field.name for field in wanted if _is_text(field)]
        file = parquet.ParquetFile(pa.BufferReader(data), read_dictionary=texts)
        footer = file.metadata
        size = sum(footer.row_group(number).total_byte_size for number in range(footer.num_row_groups))
        table = file.read() if size <= limit else None
        size = size if table is None else sum(map(_unpacked, table.columns))
        if table is not None and size <= limit:
            return table.cast(wanted)
    except (pa.ArrowException, ValueError, KeyError) as error:  # KeyError: other columns
        what = f"a file of the bundle is not the Parquet file it should be: {first_line(error)[:200]}"
        raise damaged(what, path) from error
    what = f"a file of the bundle takes {size:,} bytes when it is unpacked, and {max(0, limit):,} are allowed"
    raise BundleError(what, where=str(path), fix="plat writes no such bundle: ask the one that made it")


def _is_text(field: pyarrow.Field) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(field.type) or pa.types.is_large_string(field.type))


def _unpacked(column: pyarrow.ChunkedArray) -> int:
    """Return the bytes of a column whose texts are written out for each row."""
    import pyarrow as pa
    import pyarrow.compute as compute

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    lengths = (compute.take(compute.binary_length(part.dictionary), part.indices) for part in column.chunks)
    return sum(int(compute.sum(part).as_py() or 0) for part in lengths)


def _read_file(folder: Path, name: str, facts: Any) -> bytes:
    """Return the bytes of one file. Raises BundleError unless size and SHA-256 are those of the manifest (`facts`)."""
    path = folder / name
    try:
        size, digest = int(facts["bytes"]), str(facts["sha256"])
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe never ends
            raise damaged("a file of the bundle cannot be read: it is not a regular file", path)
        found = status.st_size
        if found <= size:  # a larger file could fill the memory
            data = read_bytes(path, size)
            found = len(data)
    except FileNotFoundError as error:
        raise damaged("a file of the bundle is missing", path) from error
    except OSError as error:
        raise damaged(f"a file of the bundle cannot be read: {error.strerror or error}", path) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise damaged(f"the bundle's manifest is damaged at {name!r}", folder / MANIFEST) from error
    if found != size:
        raise damaged(f"a file of the bundle has {found} bytes instead of {size}: it was cut or replaced", path)
    if hashlib.sha256(data).hexdigest() != digest:
        raise damaged("a file of the bundle is damaged: its checksum is not the manifest's", path)
    return data
