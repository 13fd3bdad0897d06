"""Define `plat/measured.parquet`: the artifact of an MLflow run from which every reader of results reads.

One file holds a whole run: what describes it (`facts`, as JSON in the file's metadata) and its rows:

    key, step, value, time    of a metric, sorted by key and step
    key, step, data, time     of a table: its name, and its content as JSON text

The same run gives the same bytes (with the same pyarrow). Their SHA-256 stands in the tag `plat.measured` of the MLflow
run and in the run's result.json.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plat.store.run_directory.history import Metric, Table

if TYPE_CHECKING:
    import numpy as np
    import pyarrow

FORMAT = 1
FOLDER, NAME = "plat", "measured.parquet"
ARTIFACT = f"{FOLDER}/{NAME}"  # path in the artifacts of an MLflow run
NOT_COMPARED = ("time/", "mem/")  # may differ between two executions of one run
BASE_TAG = "plat.summary.base_sha256"  # content hash of the base model that a run started from
_META = b"plat"
LARGEST = 1 << 30  # bytes of a file


class Series(NamedTuple):
    """Metrics of a run: K sorted keys, their counts n_k, and sum(n_k) steps and values in the order of key and step."""

    keys: list[str]
    counts: list[int]
    steps: np.ndarray  # int64
    values: np.ndarray  # float64


@dataclass(frozen=True)
class Measured:
    """The content of one artifact.

    facts    `tags` of the MLflow run, `axes`, `status`, and `run`, as `plat.store.run_directory.description` gives it
    metrics  Arrow table with the columns key, step, value, time
    tables   Arrow table with the columns key, step, data, time
    """

    facts: dict[str, Any]
    metrics: pyarrow.Table
    tables: pyarrow.Table

    def series(self) -> Series:
        """Return the metrics as arrays."""
        import numpy as np

        keys = self.metrics["key"].combine_chunks()
        codes = keys.indices.to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(np.diff(codes, prepend=-1)) if len(codes) else np.zeros(0, np.int64)
        names = keys.dictionary.to_pylist()
        counts = np.diff(starts, append=len(codes)).tolist()
        steps, values = (self.metrics[name].to_numpy() for name in ("step", "value"))
        return Series([names[code] for code in codes[starts]], counts, steps, values)

    def logged_tables(self) -> list[tuple[str, int, Any]]:
        """Return (name, step, data) of every table, sorted."""
        columns = (self.tables[name].to_pylist() for name in ("key", "step", "data"))
        return [(name, step, json.loads(data)) for name, step, data in zip(*columns, strict=True)]

    def history(self) -> tuple[list[Metric], list[Table]]:
        """Return the metrics and tables as `plat.store.run_directory.history` does, sorted by name and step."""
        columns = (self.metrics[name].to_pylist() for name in ("key", "step", "value", "time"))
        times = self.tables["time"].to_pylist()
        tables = [Table(*row, time) for row, time in zip(self.logged_tables(), times, strict=True)]
        return [Metric(*row) for row in zip(*columns, strict=True)], tables


def sha256_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def encode(facts: Mapping[str, Any], metrics: Sequence[Metric], tables: Sequence[Table]) -> bytes:
    """Return the content of the file of a run."""
    import pyarrow as pa
    from pyarrow import parquet

    numbers, logged = sorted(metrics), sorted(tables, key=lambda row: row[:2])
    empty, rows = [None] * len(logged), [None] * len(numbers)
    columns = {
        "key": pa.array([row.key for row in numbers] + [row.name for row in logged], pa.string()),
        "step": pa.array([row.step for row in numbers] + [row.step for row in logged], pa.int64()),
        "value": pa.array([float(row.value) for row in numbers] + empty, pa.float64()),
        "data": pa.array(rows + [json.dumps(row.data) for row in logged], pa.string()),
        "time": pa.array([float(row.time) for row in numbers] + [float(row.time) for row in logged], pa.float64()),
    }
    meta = {"format": FORMAT, "metrics": len(numbers), "facts": facts}
    table = pa.table(columns).replace_schema_metadata({_META: json.dumps(meta).encode()})
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression="zstd", use_dictionary=["key"], write_statistics=False)
    return buffer.getvalue()


def decode(data: bytes) -> Measured:
    """Return the content of a file. Raises ValueError if `encode` of this plat or an earlier one did not write it."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(pa.BufferReader(data), read_dictionary=["key"], use_threads=False)
        meta = json.loads(table.schema.metadata[_META])
        if meta["format"] > FORMAT:
            raise ValueError(f"it was written by a newer plat (format {meta['format']})")
        count, facts = int(meta["metrics"]), dict(meta["facts"])
        tables = table.slice(count).select(["key", "step", "data", "time"])
        return Measured(facts, table.slice(0, count).select(["key", "step", "value", "time"]), tables)
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise ValueError(f"it cannot be read: {error}") from error


def conflict(own: Measured, stored: Measured) -> str:
    """Return in one line which base model or value (except `time/`, `mem/`) differs from the stored one, or "".

    Values that only one of them has are no conflict.
    """
    base, recorded = (measured.facts.get("tags", {}).get(BASE_TAG) for measured in (stored, own))
    if base and recorded and base != recorded:
        return f"it started from base model {recorded[:12]}, the stored run from {base[:12]}"
    values = {(row.key, row.step): row.value for row in stored.history()[0]}
    for row in own.history()[0]:
        if row.key.startswith(NOT_COMPARED) or (row.key, row.step) not in values:
            continue
        value = values[row.key, row.step]
        if value != row.value and not (math.isnan(value) and math.isnan(row.value)):
            return f"{row.key} at step {row.step} is {row.value}, stored is {value}"
    return ""


def lacking(own: Measured, stored: Measured) -> str:
    """Return in one line which metrics and tables of a done run the stored one lacks, or ""."""
    there = {row[:2] for rows in stored.history() for row in rows}
    absent = sorted({row[:2] for rows in own.history() for row in rows} - there)
    return f"{absent[0][0]} at step {absent[0][1]} is not stored ({len(absent)} in all)" if absent else ""
