"""Rows of problems, of which only those that are played are read: the published files have several gigabytes.

An index has the hash of each problem. For JSON Lines it also has where each line begins, and it is kept beside the
file, if that can be written.
"""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Protocol

from plat_envs.data import Row, open_regular, read_rows
from plat_envs.environment_errors import BadEnvironment

INDEX = ".plat-index.json"
Place = tuple[str, int, int]  # of a line: the hash of its problem, its offset in the file, its number
FIX = "a .parquet or .jsonl file with the columns problem and tests"


class Rows(Protocol):
    """`keys` has the hash of each row's problem; `row` reads one."""

    keys: list[str]

    def row(self, number: int) -> Row:
        """Return a row. Raises BadEnvironment if it cannot be read, or the file has another one there by now."""


def key_of(row: Row, where: str) -> str:
    """Return the hash of a row's problem, whatever its white space is. Raises BadEnvironment if it has none."""
    problem = row.get("problem")
    if not isinstance(problem, str) or not problem.strip():
        raise BadEnvironment("a row without the text `problem`", where=where, fix=FIX)
    return blake2b(" ".join(problem.split()).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _unchanged(row: Row, key: str, where: str) -> Row:
    """Return a row. Raises BadEnvironment if its problem is not the one that has this key."""
    if key_of(row, where) != key:
        raise BadEnvironment("the file changed while it was in use", where=where, fix="start the run again")
    return row


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise BadEnvironment for an error of the file in the block."""
    try:
        yield
    except (OSError, ValueError, ImportError, RecursionError) as error:
        raise BadEnvironment(f"cannot read the data: {error}", where=path, fix=FIX) from None


class JsonLines:
    """A file with a JSON object in each line. Raises BadEnvironment if it is none, or lacks a problem."""

    def __init__(self, path: str) -> None:
        self._path = path
        about = os.stat(path)
        state = [about.st_size, about.st_mtime_ns]
        index = Path(path + INDEX)
        rows = _kept(index, state)
        if not rows:
            rows = list(self._all())
            _write(index, {"state": state, "rows": rows})
        self.keys = [key for key, _, _ in rows]
        self._places = [(offset, line) for _, offset, line in rows]

    def _all(self) -> Iterator[Place]:
        """Yield the place of each line that is not empty."""
        with open_regular(self._path) as file:
            offset = 0
            for line, text in enumerate(file, start=1):
                if text.strip():
                    yield key_of(self._parsed(text, line), f"{self._path}:{line}"), offset, line
                offset += len(text)

    def _parsed(self, text: bytes, line: int) -> Row:
        try:
            row = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadEnvironment(f"a line is no JSON: {error}", where=f"{self._path}:{line}", fix=FIX) from None
        if not isinstance(row, dict):
            raise BadEnvironment("a line is no JSON object", where=f"{self._path}:{line}", fix=FIX)
        return row

    def row(self, number: int) -> Row:
        offset, line = self._places[number]
        with _reading(self._path), open_regular(self._path) as file:
            file.seek(offset)
            return _unchanged(self._parsed(file.readline(), line), self.keys[number], f"{self._path}:{line}")


def _kept(index: Path, state: list[int]) -> list[Place]:
    """Return the rows of an index that was made for a file in this state, or [] if it is damaged or for another one."""
    try:
        known = json.loads(index.read_text(encoding="utf-8"))
        rows = [(key, offset, line) for key, offset, line in known["rows"]]
        is_right = known["state"] == state and all(map(_is_place, rows))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
    return rows if is_right else []


def _is_place(row: tuple[Any, Any, Any]) -> bool:
    key, offset, line = row
    return type(key) is str and type(offset) is type(line) is int and offset >= 0


def _write(index: Path, content: dict[str, Any]) -> None:
    """Write the index, unless its folder cannot be written."""
    part = index.with_name(f"{index.name}.{os.getpid()}")
    with suppress(OSError):
        part.write_text(json.dumps(content), encoding="utf-8")
        os.replace(part, index)


class ParquetRows:
    """A .parquet file; the last row groups that were read stay in memory. Raises ValueError for another file."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet

        self._path, self._open = path, pyarrow.parquet.ParquetFile
        with open_regular(path) as opened:
            file = self._open(opened)
            if "problem" not in file.schema_arrow.names:
                raise ValueError("it has no column `problem`")
            counts = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            parts = [part.column(0).to_pylist() for part in file.iter_batches(columns=["problem"])]
        self._ends = list(accumulate(counts))
        self.keys = [key_of({"problem": text}, f"{path}: row {row}") for row, text in enumerate(chain(*parts))]
        self._group = lru_cache(maxsize=4)(self._read_group)

    def _read_group(self, group: int) -> Any:
        with _reading(self._path), open_regular(self._path) as opened:
            return self._open(opened).read_row_group(group)

    def row(self, number: int) -> Row:
        group = bisect_right(self._ends, number)
        start = self._ends[group - 1] if group else 0
        found: list[Row] = self._group(group).slice(number - start, 1).to_pylist()
        return _unchanged(found[0] if found else {}, self.keys[number], f"{self._path}: row {number}")


class Listed:
    """Rows that are in memory, or that read themselves, as those of the package `datasets` do."""

    def __init__(self, rows: Any, problems: list[Any], where: str) -> None:
        self._rows = rows
        self.keys = [key_of({"problem": problem}, f"{where}: row {row}") for row, problem in enumerate(problems)]

    def row(self, number: int) -> Row:
        return dict(self._rows[number])


@lru_cache(maxsize=4)
def file_rows(path: str) -> Rows:
    """Return the rows of a file. Raises BadEnvironment if it cannot be read, or a row has no problem."""
    with _reading(path):
        if path.endswith(".parquet"):
            return ParquetRows(path)
        with open_regular(path) as file:
            is_list = file.read(64).lstrip().startswith(b"[")
        if is_list:
            rows = read_rows(path)
            return Listed(rows, [row.get("problem") for row in rows], path)
        return JsonLines(path)
