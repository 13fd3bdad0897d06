"""Rows of real datasets for `data: file` (Parquet, JSON, JSON Lines) and `data: hub`, and their splits.

The hash of a row's key decides its split. So a row keeps its split if a file grows or is reordered, and rows that share
a key (rephrasings of one question) stay together. `train` also has the rows of `base`; other splits are disjoint.
"""

from __future__ import annotations

import errno
import json
import os
import random
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from hashlib import file_digest
from importlib.util import find_spec
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeVar

from plat_envs.api import Need
from plat_envs.environment_errors import BadEnvironment, check_choice
from plat_envs.instances import Candidate, draw, source_split, split_of

SOURCES = ("generated", "file", "hub")
Row = dict[str, Any]
Item = TypeVar("Item")


def check_source(task: str, data: str, path: str) -> None:
    """Raise BadEnvironment if `data` is not in SOURCES, or is "file" without a path. `task` is for the message."""
    check_choice("data", data, SOURCES)
    if data == "file" and not path:
        raise BadEnvironment(f"{task}: data is 'file' but path is empty", fix="path: a .parquet, .json or .jsonl file")


def read_rows(path: str) -> list[Row]:
    """Return the rows of a .parquet file; any other file holds a JSON list of objects, or one JSON object a line.

    An empty file gives []. Raises BadEnvironment if the file cannot be read or holds anything but objects.
    """
    file = Path(path)
    try:
        if file.suffix == ".parquet":
            import pyarrow.parquet

            with open_regular(file) as opened:
                rows: list[Row] = pyarrow.parquet.read_table(opened).to_pylist()
        else:
            with open_regular(file) as opened:
                text = opened.read().decode("utf-8-sig")
            if text.lstrip().startswith("["):
                rows = json.loads(text)
            else:
                rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    except (OSError, ValueError, RecursionError) as error:
        raise BadEnvironment(
            f"cannot read the data: {error}", where=path, fix="a .parquet, .json (list of objects) or .jsonl file"
        ) from None
    if not all(isinstance(row, dict) for row in rows):
        raise BadEnvironment("the data are not a list of objects", where=path)
    return rows


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file to read its bytes. Raises OSError for others: reading a pipe may never end."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def hub_rows(dataset: str, revision: str, name: str = "", part: str = "train") -> list[Row]:
    """Return the rows of a part of a dataset on the Hugging Face hub, or in its local cache.

    `revision` "" is the newest, `name` "" its only configuration. Raises BadEnvironment if they cannot be loaded, or
    the package `datasets` is missing.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise BadEnvironment(
            "data: hub needs a package that is not installed: datasets",
            where=f"hub:{dataset}",
            fix="pip install 'plat[hub]', or use data: file with path, or data: generated",
        ) from None
    try:
        return list(load_dataset(dataset, name or None, split=part, revision=revision or None))
    except Exception as error:  # network, cache and dataset raise errors of many classes
        raise BadEnvironment(
            f"cannot load the dataset: {type(error).__name__}: {error}",
            where=f"hub:{dataset}",
            fix="download it once where there is a network (HF_HOME), or use data: file with path, or data: generated",
        ) from None


@lru_cache(maxsize=16)
def rows_of(data: str, path: str, dataset: str, revision: str, name: str = "", part: str = "train") -> tuple[Row, ...]:
    """Return the rows of the file or of the hub, read once per process. BadEnvironment if they cannot be read.

    `name` and `part`: of a dataset on the hub.
    """
    return tuple(read_rows(path) if data == "file" else hub_rows(dataset, revision, name, part))


def of_split(task: str, items: list[Item], key: Callable[[Item], str], split: str, shared_pool: bool) -> list[Item]:
    """Return the items of a split, in the given order; `train` also has those of `base`.

    The hash of `key(item)` decides the split. With `shared_pool`, `validation` has the items of `train`. Raises
    BadEnvironment for an unknown split, or if it has no item. `task` is for the message.
    """
    wanted = source_split(split, shared_pool)
    splits = {"train": ("train", "base")}.get(wanted, (wanted,))
    chosen = [item for item in items if split_of(key(item)) in splits]
    if not chosen:
        raise BadEnvironment(f"{task}: no usable row for split {split!r}", fix="more rows, or shared_pool: true")
    return chosen


def problem_of_seed(
    task: str,
    config: Any,
    split: str,
    seed: int,
    pool: Callable[[Any, str], list[Item]],
    candidates: Callable[[random.Random], Iterator[Candidate[Item]]],
) -> Item:
    """Return the problem of (split, seed): of real data one of `pool(config, split)`, else one of the candidates.

    Of real data, seed 0 gives the first problem of the split in the file, and so on; after the last, the first again.
    Raises BadEnvironment if the split has none or the data cannot be read.
    """
    if config.data != "generated":
        problems = pool(config, split)
        return problems[seed % len(problems)]
    return draw(task, split, seed, config.shared_pool, candidates)


@lru_cache(maxsize=16)
def _file_hash(path: str, size: int, changed: int) -> str:
    with open_regular(path) as file:
        return file_digest(file, "sha256").hexdigest()


def is_here(config: Any) -> bool:
    """Return True unless `config.data` is "hub": then the rows may have to be downloaded."""
    return bool(config.data != "hub")


def fingerprint(config: Any) -> dict[str, str]:
    """Return {"data_sha256": hash of the file} for `data: file`, and {} for other data.

    Raises BadEnvironment if the file cannot be read.
    """
    return fingerprint_of({"data_sha256": config.path}) if config.data == "file" else {}


def fingerprint_of(files: Mapping[str, str]) -> dict[str, str]:
    """Return name -> hash of the file at each path. Raises BadEnvironment if a file cannot be read."""
    return {name: _hash(path) for name, path in files.items()}


def _hash(path: str) -> str:
    try:
        about = Path(path).stat()
        return _file_hash(path, about.st_size, about.st_mtime_ns)
    except OSError as error:
        what = f"cannot read the data: {error.strerror or error}"
        fix = "name a file that is here, e.g. task.env.path=FILE, or use generated data"
        raise BadEnvironment(what, where=path, fix=fix) from None


# Models and datasets of the Hugging Face hub: whether they are on this machine, and how to get them.


def model_need(name: str, gigabytes: float) -> Need:
    """Return the checkpoint `name` of the hub, of this size on disk, as something that runs need."""
    what = f"the checkpoint {name} of the hub ({gigabytes:.0f} GB of disk)"
    return Need(what) if _is_cached("models", name) else Need(what, "not on this machine yet", f"hf download {name}")


def dataset_need(name: str) -> Need:
    """Return the dataset `name` of the hub as something that runs need."""
    what = f"the dataset {name} of the hub"
    if find_spec("datasets") is None:
        return Need(what, "the package datasets is not installed", "pip install 'plat[hub]'")
    if _is_cached("datasets", name):
        return Need(what)
    fix = "the first run downloads it; without a network, use task.env.data=file"
    return Need(what, "not on this machine yet", fix)


def _is_cached(kind: str, name: str) -> bool:
    root = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    hub = Path(os.environ.get("HF_HUB_CACHE") or root / "hub")
    made = Path(os.environ.get("HF_DATASETS_CACHE") or root / "datasets") / name.replace("/", "___")
    return (hub / f"{kind}--{name.replace('/', '--')}").exists() or (kind == "datasets" and made.exists())
