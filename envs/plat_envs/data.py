"""Rows of real datasets for `data: file` (Parquet, JSON, JSON Lines) and `data: hub`, and their splits.

A row belongs to a split by the hash of its key (not of its position), so splits stay disjoint when a file grows or is
reordered, and rows that share a key (rephrasings of one question) stay together.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from plat_envs.errors import BadEnvironment, check_choice
from plat_envs.instances import source_split, split_of

SOURCES = ("generated", "file", "hub")
Row = dict[str, Any]
Item = TypeVar("Item")


def check_source(task: str, data: str, path: str) -> None:
    """Raise where `data` is unknown or `file` has no path."""
    check_choice("data", data, SOURCES)
    if data == "file" and not path:
        raise BadEnvironment(f"{task}: data is 'file' but path is empty", mend="path: a .parquet, .json or .jsonl file")


def read_rows(path: str) -> list[Row]:
    """Rows of a Parquet file, a JSON file holding a list of objects, or JSON Lines."""
    file = Path(path)
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet

            with _open(file) as opened:
                rows: list[Row] = pyarrow.parquet.read_table(opened).to_pylist()
        else:
            with _open(file) as opened:
                text = opened.read().decode("utf-8")
            if text.lstrip().startswith("["):
                rows = json.loads(text)
            else:
                rows = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise BadEnvironment(
            f"cannot read the data: {error}", where=path, mend="a .parquet, .json (list of objects) or .jsonl file"
        ) from None
    if not all(isinstance(row, dict) for row in rows):
        raise BadEnvironment("the data are not a list of objects", where=path)
    return rows


def _open(path: str | Path) -> BinaryIO:
    """Open a file to read its bytes; OSError for what is none: a pipe would be waited for without end."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def hub_rows(dataset: str, revision: str) -> list[Row]:
    """The training rows of a dataset on the Hugging Face hub, or of the local cache of it."""
    from datasets import load_dataset

    try:
        return list(load_dataset(dataset, split="train", revision=revision or None))
    except Exception as error:  # whatever the network, the cache or the dataset can throw
        raise BadEnvironment(
            f"cannot load the dataset: {type(error).__name__}: {error}",
            where=f"hub:{dataset}",
            mend="download it once where there is a network (HF_HOME), or use data: file with path, or data: generated",
        ) from None


@lru_cache(maxsize=16)
def rows_of(data: str, path: str, dataset: str, revision: str) -> tuple[Row, ...]:
    """The rows of `file` or `hub`, read once per process."""
    return tuple(read_rows(path) if data == "file" else hub_rows(dataset, revision))


def of_split(task: str, items: list[Item], key: Callable[[Item], str], split: str, shared_pool: bool) -> list[Item]:
    """The items of a split in file order; BadEnvironment where none is left."""
    wanted = source_split(split, shared_pool)
    splits = {"train": ("train", "base")}.get(wanted, (wanted,))
    chosen = [item for item in items if split_of(key(item)) in splits]
    if not chosen:
        raise BadEnvironment(f"{task}: no usable row for split {split!r}", mend="more rows, or shared_pool: true")
    return chosen


@lru_cache(maxsize=16)
def _file_hash(path: str, size: int, changed: int) -> str:
    digest = sha256()
    with _open(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def is_here(config: Any) -> bool:
    """Whether the rows can be read without a network."""
    return bool(config.data != "hub")


def fingerprint(config: Any) -> dict[str, str]:
    """What the problems depend on beyond the config: the content of the file."""
    if config.data != "file":
        return {}
    try:
        about = Path(config.path).stat()
        return {"data_sha256": _file_hash(config.path, about.st_size, about.st_mtime_ns)}
    except OSError as error:
        raise BadEnvironment(f"cannot read the data: {error}", where=config.path) from None
