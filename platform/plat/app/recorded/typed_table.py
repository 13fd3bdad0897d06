"""Read tables whose values have types: JSON (records, columns, nested), JSON lines and Parquet."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from plat.app.recorded.foreign_run import flat_values, text_values
from plat.errors import RunError, SpecError
from plat.plain_files import parse_json, read_bytes
from plat.trainer.script.readers.objects import STEPS, Logged, json_number, number, whole
from plat.units import counted

LARGEST = 1 << 29  # bytes of JSON after it is unpacked: Python takes about ten times as much memory
ROWS = "write a list of objects, or an object of lists of equal length"
DEEPEST = 20  # levels of nested objects


@dataclass(frozen=True)
class Record:
    """One object of a file: `place` is its file and number, `cells` its dotted keys with numbers, texts or lists."""

    place: str
    cells: Mapping[str, Any]


def unpacked(path: Path, limit: int = LARGEST) -> bytes:
    """Return the content of a file, unpacked if its name ends in `.gz`.

    Raises SpecError if it cannot be read, is damaged, or has more than `limit` bytes.
    """
    fix = "take another copy, or split the file"
    try:
        content = read_bytes(path, limit)
        if path.suffix != ".gz":
            return content
        unpacker = zlib.decompressobj(wbits=31)
        found = unpacker.decompress(content, limit + 1)
        if len(found) > limit:
            raise SpecError(f"it has more than {limit:,} bytes after it is unpacked", where=str(path), fix=fix)
        if not unpacker.eof:
            raise SpecError("the compressed file is cut off", where=str(path), fix=fix)
        return gzip.decompress(content) if unpacker.unused_data else found
    except (zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise SpecError(f"the compressed file is damaged: {error}", where=str(path), fix=fix) from None
    except OSError as error:
        raise SpecError(f"the file cannot be read: {error.strerror or error}", where=str(path), fix=fix) from None


def json_records(path: Path, levels: Sequence[str]) -> list[Record]:
    """Return the records of a JSON file.

    levels  names of the keys above the records: {"pong": {"sac": [records]}} has the levels task and algorithm

    Raises SpecError if the file cannot be read or is no such JSON.
    """
    content = _json(path, unpacked(path))
    return [Record(f"{path}: {place}", cells) for place, cells in _records(content, levels, str(path))]


def line_records(path: Path) -> list[Record]:
    """Return a record for each line of JSON. Raises SpecError for a line that is no object."""
    found = []
    for at, line in enumerate(unpacked(path).splitlines(), 1):
        if not line.strip():
            continue
        value = _json(f"{path}:{at}", line)
        if not isinstance(value, dict):
            raise SpecError("the line is no object", where=f"{path}:{at}", fix='write {"step": 1, "loss": 0.5}')
        found.append(Record(f"{path}:{at}", flat_values_of(value, f"{path}:{at}")))
    return found


def parquet_records(path: Path) -> list[Record]:
    """Return a record for each row of a Parquet file. Raises SpecError if it is none."""
    named = [(f"{path}: row {at}", row) for at, row in enumerate(parquet_rows(path), 1)]
    return [Record(place, flat_values_of(row, place)) for place, row in named]


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file. Raises SpecError if it is none."""
    return [row for _, batch in parquet_batches(path) for row in batch]


def parquet_batches(path: Path, wanted: Collection[str] = ()) -> Iterator[tuple[Collection[str], list[dict[str, Any]]]]:
    """Yield the columns that a Parquet file has, and some of its rows. Raises SpecError if it is none.

    wanted  the columns to read; empty: all
    """
    import pyarrow.parquet
    from pyarrow import ArrowException

    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            read = [name for name in columns if name in wanted] if wanted else None
            for batch in file.iter_batches(columns=read):
                yield columns, batch.to_pylist()
    except (ArrowException, OSError, ValueError) as error:
        what = f"the file cannot be read: {' '.join(str(error).split())[:200]}"
        raise SpecError(what, where=str(path), fix="take another copy") from None


def flat_values_of(value: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return dotted key -> number, text, None or list of plain values of a nested object; another list becomes text.

    Raises SpecError if the object is nested too deeply.
    """
    found: dict[str, Any] = {}

    def add(inner: Mapping[str, Any], prefix: str, depth: int) -> None:
        if depth > DEEPEST:
            raise SpecError("an object is nested too deeply", where=where, fix="leave it out")
        for name, each in inner.items():
            if isinstance(each, Mapping):
                add(each, f"{prefix}{name}.", depth + 1)
            elif each is None or isinstance(each, str | int | float):
                found[f"{prefix}{name}"] = each
            elif isinstance(each, Decimal):
                found[f"{prefix}{name}"] = float(each)
            elif isinstance(each, list) and all(item is None or isinstance(item, str | int | float) for item in each):
                found[f"{prefix}{name}"] = each
            elif isinstance(each, date):
                found[f"{prefix}{name}"] = each.isoformat()
            else:
                found.update(flat_values({f"{prefix}{name}": each}))

    add(value, "", 0)
    return found


def _json(place: str | Path, content: bytes) -> Any:
    try:
        return parse_json(content)
    except ValueError as error:
        raise SpecError(f"it is no JSON: {error}", where=str(place), fix="take another copy") from None


def _records(content: Any, levels: Sequence[str], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place in the file and flat cells of each record."""

    def below(value: Any, left: Sequence[str], cells: dict[str, Any], place: str) -> Iterator[Any]:
        if left:
            if not isinstance(value, dict):
                what = f"there is no level {left[0]!r} at {place or 'the top'}: it is no object with keys"
                raise SpecError(what, where=path, fix="name a level for each key above the records: --levels A,B")
            for key, inner in value.items():
                yield from below(inner, left[1:], {**cells, left[0]: _level(key)}, f"{place}.{key}".strip("."))
            return
        for number_, record in enumerate(value if isinstance(value, list) else [value], 1):
            where = f"{place} record {number_}".strip()
            if not isinstance(record, dict):
                raise SpecError(f"{where} is no object", where=path, fix=ROWS)
            rows = [key for key, each in record.items() if _is_rows(each)]
            if len(rows) > 1:
                what = f"{where} has two lists of objects, {rows[0]!r} and {rows[1]!r}"
                raise SpecError(what, where=path, fix="leave one of them out")
            if len(rows) == 1:
                outer = {**cells, **flat_values_of({k: v for k, v in record.items() if k != rows[0]}, path)}
                for at, row in enumerate(record[rows[0]], 1):
                    yield f"{where}, {rows[0]} {at}", {**outer, **flat_values_of(row, path)}
            else:
                yield where, {**cells, **flat_values_of(record, path)}

    yield from below(content if levels else _as_rows(content), levels, {}, "")


def _level(key: str) -> Any:
    """Return the value of a key; one that is spelled in another way, such as 3.10, stays text."""
    value = text_values({"": key})[""]
    return value if str(value) == key else key


def _as_rows(content: Any) -> Any:
    """Return a table by columns (lists of one length, or objects with the same keys) as rows; else `content`."""
    columns = content.values() if isinstance(content, dict) else ()
    if columns and all(isinstance(each, list) and each and not _is_rows(each) for each in columns):
        if len({len(each) for each in columns}) == 1:
            return [dict(zip(content, row, strict=True)) for row in zip(*columns, strict=True)]
    if (
        len(columns) > 1
        and all(isinstance(each, dict) for each in columns)
        and len({tuple(each) for each in columns}) == 1
    ):
        return [{name: each[key] for name, each in content.items()} for key in next(iter(columns))]
    return content


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


# What records log.


def header_of(records: Sequence[Record]) -> list[str]:
    """Return the keys of the records, in the order of their first appearance."""
    return list(dict.fromkeys(key for record in records for key in record.cells))


def counter_of(header: Sequence[str], step: str) -> str:
    """Return the key that counts steps: `step`, or the first of STEPS that is there; "" without one."""
    if step:
        return step
    names = {name.lower(): name for name in reversed(header)}
    return next((names[name] for name in STEPS if name in names), "")


def logged_of(
    records: Sequence[Record], counter: str, left_out: Collection[str], named_by: str = ""
) -> Iterator[tuple[str, str, Logged]]:
    """Yield place, name and metrics of each step of one run. Lists in a record are its steps.

    counter   the key that counts steps; "": they are counted
    named_by  the key whose text is yielded as the name; "": the name is ""

    Raises SpecError if a step is no whole number, if lists of a record have different lengths, or if a key holds both
    numbers and texts.
    """
    texts: dict[str, str | bool] = {}
    numbers: set[str] = set()
    following = 1
    for record in records:
        cells = {key: value for key, value in record.cells.items() if key not in left_out or key == counter}
        name = record.cells.get(named_by) if named_by else ""
        name = name if isinstance(name, str) else ""
        for row in _rows_of(cells, counter, record.place):
            step = _step(row.pop(counter, None), counter, record.place) if counter else following
            following = step + 1
            metrics = {}
            for key, value in row.items():
                found = number(value) if isinstance(value, str) and json_number(value) is None else json_number(value)
                if found is not None:
                    metrics[key] = found
                    numbers.add(key)
                elif isinstance(value, str | bool):
                    texts.setdefault(key, value)
                if key in texts and key in numbers:
                    what = f"{key!r} has numbers, and a text: {texts[key]!r:.60}"
                    raise SpecError(what, where=record.place, fix="correct it, or name other metrics: --metrics A,B")
            yield record.place, name, Logged(step, metrics, 0.0, counter or "line")


def _is_series(value: Sequence[Any]) -> bool:
    return any(json_number(each) is not None for each in value)


def _rows_of(cells: Mapping[str, Any], counter: str, place: str) -> Iterator[dict[str, Any]]:
    lists = {
        key: value for key, value in cells.items() if isinstance(value, list) and (key == counter or _is_series(value))
    }
    cells = {key: value for key, value in cells.items() if key in lists or not isinstance(value, list)}
    if not lists:
        yield dict(cells)
        return
    if counter in cells and counter not in lists:
        what = f"{next(iter(lists))!r} has {counted(len(next(iter(lists.values()))), 'value')} at one step"
        raise SpecError(what, where=place, fix="write one number, or name other metrics: --metrics A,B")
    lengths = {key: len(value) for key, value in lists.items()}
    if len(set(lengths.values())) > 1:
        one, other = next((a, b) for a in lengths for b in lengths if lengths[a] != lengths[b])
        what = f"{one!r} has {counted(lengths[one], 'value')}, and {other!r} has {lengths[other]}"
        raise SpecError(what, where=place, fix="correct it, or name the lists of one length: --step KEY --metrics A,B")
    constant = {key: value for key, value in cells.items() if not isinstance(value, list)}
    for at in range(next(iter(lengths.values()))):
        yield {**constant, **{key: value[at] for key, value in lists.items()}}


def _step(value: Any, counter: str, place: str) -> int:
    try:
        return whole(counter, value, json_number(value), place)
    except RunError:
        fix = "correct it, or name another key of steps: --step KEY"
        what = f"the step {counter} is {value!r:.60}, which is no whole number of at least 0"
        raise SpecError(what, where=place, fix=fix) from None
