"""Define the format of a bundle: a folder of small Parquet files and a manifest, to be copied and kept in git.

    manifest.json              format, versions, experiment files, and the size and SHA-256 of every other file
    runs-0001.parquet ...      one row per run: outcome and provenance (config, versions, code and base hashes)
    metrics-0001.parquet ...   run_id, key, step, value, time: the durable values by run, by step, in logged order
    tables-0001.parquet ...    run_id, name, step, time, data (JSON text)
    experiments/*.yaml         the experiment files and the papers they name, to rebuild the report

The same content gives the same bytes (with the same pyarrow). A shard is smaller than SHARD_BYTES unless a single row
is larger. `write_bundle` leaves a whole bundle or nothing; `read_bundle` returns it unchanged or raises BundleError.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
MANIFEST = "manifest.json"
KINDS = ("runs", "metrics", "tables")


@dataclass
class Bundle:
    """The content of a bundle."""

    tables: dict[str, pyarrow.Table]  # each of KINDS -> Arrow table with the columns of `schema`
    # per experiment file a dictionary with `name`, `title`, `runs` (ids), and `plans` (fields of `PlanRecord`) if any
    experiments: list[dict[str, Any]] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)  # overrides of the command line at the export
    files: dict[str, str] = field(default_factory=dict)  # path below `experiments/` -> text


def damaged(what: str, where: Path) -> BundleError:
    """Return the error for a bundle that is damaged at a path."""
    return BundleError(what, where=str(where), fix="copy or export it again")


def schema(kind: str) -> pyarrow.Schema:
    """Return the Arrow schema of the table `kind`: "runs", "metrics" or "tables"."""
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
