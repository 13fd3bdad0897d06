"""The format of a bundle: a folder of small Parquet files and a manifest, made to be carried and kept in git.

    manifest.json              format, versions, the experiment files, and of every other file its size and SHA-256
    runs-0001.parquet ...      one row a run: how it ended, and its provenance (config, versions, code and base hashes)
    metrics-0001.parquet ...   run_id, key, step, value, time: every value that counts, in the order it was logged
    tables-0001.parquet ...    run_id, name, step, time, data (JSON text)
    experiments/*.yaml         the experiment files with the papers they name, to rebuild the report with

Promised: the same content gives the same bytes (with the same pyarrow); a shard is smaller than SHARD_BYTES unless one
single row is larger; `write_bundle` leaves a whole bundle or nothing; `read_bundle` gives what was written, or raises
BundleError that names the file and what is wrong with it.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError
from plat.store.durable import scratch_name
from plat.text import forbidden_character

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
SHARD_BYTES = 1 << 20  # git and its web pages handle files below 1 MiB well
MANIFEST = "manifest.json"
KINDS = ("runs", "metrics", "tables")
_FILE_NAME = re.compile(
    r"(?:runs|metrics|tables)-\d{4,}\.parquet|experiments/(?:papers/)?[^/\\\x00-\x1f\x7f-\x9f]+\.yaml"
)
_AGAIN = "copy or export it again"


@dataclass
class Bundle:
    """The content of a bundle. `tables` maps each of KINDS to its rows, as an Arrow table with the columns of `schema`.

    experiments  name, title and run ids (`runs`) of each experiment file, as dictionaries
    overrides    what the command line changed in the experiment files when the bundle was made
    files        relative path below `experiments/` -> text
    """

    tables: dict[str, pyarrow.Table]
    experiments: list[dict[str, Any]] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)


def schema(kind: str) -> pyarrow.Schema:
    """The columns of one of KINDS."""
    import pyarrow as pa

    text = pa.string()
    columns: dict[str, dict[str, pyarrow.DataType]] = {
        "runs": {
            **dict.fromkeys(("run_id", "name", "outcome", "trainer", "trainer_version", "axes"), text),
            **dict.fromkeys(("base_sha256", "code_commit", "code_diff_sha256", "versions"), text),
            **dict.fromkeys(("config", "meta", "result", "code", "diff"), text),
            **dict.fromkeys(("metric_rows", "table_rows", "attempt"), pa.int64()),
            **dict.fromkeys(("attempt_meta", "attempt_outcome"), text),
        },
        "metrics": {"run_id": text, "key": text, "step": pa.int64(), "value": pa.float64(), "time": pa.float64()},
        "tables": {"run_id": text, "name": text, "step": pa.int64(), "time": pa.float64(), "data": text},
    }
    return pa.schema(list(columns[kind].items()))


# -- writing ----------------------------------------------------------------------------------------------------------


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
        (scratch / MANIFEST).write_bytes(_manifest(bundle, contents))
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
            added = sorted(present - {MANIFEST, *_read_manifest(folder)["files"]})
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


def _manifest(bundle: Bundle, contents: Mapping[str, bytes]) -> bytes:
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


# -- reading ----------------------------------------------------------------------------------------------------------


def read_bundle(folder: Path) -> Bundle:
    """The whole content, every file checked against the manifest before anything is used; else BundleError."""
    import pyarrow as pa
    from pyarrow import parquet

    manifest = _read_manifest(folder)
    contents = {name: _read_file(folder, name, facts) for name, facts in manifest["files"].items()}
    tables = {}
    for kind in KINDS:
        shards = []
        for name in sorted(name for name in contents if name.startswith(f"{kind}-")):
            try:
                shards.append(parquet.read_table(pa.BufferReader(contents[name])).cast(schema(kind)))
            except (pa.ArrowException, ValueError) as error:
                raise BundleError(
                    f"a file of the bundle is not the Parquet file it should be: {_first_line(error)}",
                    where=str(folder / name),
                    mend=_AGAIN,
                ) from error
        if not shards:
            raise BundleError(f"the bundle has no file with {kind}", where=str(folder / MANIFEST), mend=_AGAIN)
        tables[kind] = pa.concat_tables(shards)
    if tables["runs"].num_rows != manifest["runs"]:
        raise BundleError(
            f"the bundle has {tables['runs'].num_rows} runs, and its manifest names {manifest['runs']}",
            where=str(folder / MANIFEST),
            mend=_AGAIN,
        )
    texts = {name.removeprefix("experiments/"): data for name, data in contents.items() if name.endswith(".yaml")}
    files = {name: data.decode(errors="replace") for name, data in texts.items()}
    return Bundle(tables, manifest["experiments"], manifest["overrides"], files)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and forbidden_character(value) is None


def _is_experiment(value: Any) -> bool:
    """As `Bundle.experiments` describes it."""
    if not isinstance(value, dict) or not isinstance(value.get("runs"), list):
        return False
    return all(map(_is_name, [value.get("name"), value.get("title"), *value["runs"]]))


_MANIFEST_TYPES: dict[str, Callable[[Any], bool]] = {
    "runs": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "experiments": lambda value: isinstance(value, list) and all(map(_is_experiment, value)),
    "overrides": lambda value: isinstance(value, list) and all(map(_is_name, value)),
    "files": lambda value: isinstance(value, dict),
}


def _read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest with the keys that `read_bundle` uses, all of their types."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        version = manifest["plat_bundle"]
        if isinstance(version, bool) or not isinstance(version, int):
            raise TypeError("the format is a whole number")
    except FileNotFoundError as error:
        problem = (
            "this folder is not a bundle: it has no manifest.json" if folder.is_dir() else "there is no such bundle"
        )
        raise BundleError(problem, where=str(folder), mend="name the folder that `plat export` made") from error
    except NotADirectoryError as error:
        raise BundleError(
            "a bundle is a folder, and this is a file",
            where=str(folder),
            mend="name the folder that `plat export` made",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BundleError("the bundle's manifest cannot be read", where=str(path), mend=_AGAIN) from error
    if version < 1:
        raise BundleError(
            f"the bundle's manifest is damaged: there is no format {version}", where=str(path), mend=_AGAIN
        )
    if version > FORMAT:
        raise BundleError(
            f"the bundle was written by a newer plat (format {version}, this one knows {FORMAT})",
            where=str(path),
            mend="upgrade plat, or let the one that wrote it export what you need",
        )
    wrong = [key for key, holds in _MANIFEST_TYPES.items() if not holds(manifest.get(key))]
    wrong += [name for name in manifest.get("files") or () if not _FILE_NAME.fullmatch(name)]
    if wrong:
        raise BundleError(f"the bundle's manifest is damaged at {wrong[0]!r}", where=str(path), mend=_AGAIN)
    return manifest  # type: ignore[no-any-return]


def _read_file(folder: Path, name: str, facts: Any) -> bytes:
    """The bytes of one file of the bundle, which are those that were written."""
    path = folder / name
    try:
        size, digest = int(facts["bytes"]), str(facts["sha256"])
        _check_before_reading(path, size)
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise BundleError("a file of the bundle is missing", where=str(path), mend=_AGAIN) from error
    except OSError as error:
        raise BundleError(
            f"a file of the bundle cannot be read: {error.strerror or error}", where=str(path), mend=_AGAIN
        ) from error
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise BundleError(
            f"the bundle's manifest is damaged at {name!r}", where=str(folder / MANIFEST), mend=_AGAIN
        ) from error
    if len(data) != size:
        raise BundleError(
            f"a file of the bundle has {len(data)} bytes instead of {size}: it was cut or replaced",
            where=str(path),
            mend=_AGAIN,
        )
    if hashlib.sha256(data).hexdigest() != digest:
        raise BundleError(
            "a file of the bundle is damaged: its checksum is not the manifest's", where=str(path), mend=_AGAIN
        )
    return data


def _check_before_reading(path: Path, size: int) -> None:
    """BundleError for what is not a regular file (reading a pipe never ends) or is larger than it should be."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise BundleError("a file of the bundle cannot be read: it is not a regular file", where=str(path), mend=_AGAIN)
    if status.st_size > size:
        raise BundleError(
            f"a file of the bundle has {status.st_size} bytes instead of {size}: it was cut or replaced",
            where=str(path),
            mend=_AGAIN,
        )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
