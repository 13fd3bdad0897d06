"""The format of a bundle: a folder of small Parquet files and a manifest, made to be carried and kept in git.

    manifest.json              format, versions, the experiment files, and of every other file its size and SHA-256
    runs-0001.parquet ...      one row a run: how it ended, and its provenance (config, versions, code and base hashes)
    metrics-0001.parquet ...   run_id, key, step, value, time: every value that counts, in the order it was logged
    tables-0001.parquet ...    run_id, name, step, time, data (JSON text)
    experiments/*.yaml         the experiment files with the papers they name, to rebuild the report with

Promised: the same content gives the same bytes (with the same pyarrow); a shard is smaller than SHARD_BYTES unless one
single row is larger; `writing.write_bundle` leaves a whole bundle or nothing; `reading.read_bundle` gives what was
written, or raises BundleError that names the file and what is wrong with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
MANIFEST = "manifest.json"
KINDS = ("runs", "metrics", "tables")
EXPORT_AGAIN = "copy or export it again"  # how a damaged bundle is mended


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
