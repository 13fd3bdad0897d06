"""Read the results in a bundle as frames, without a home or a store, for reports with a bundle beside them.

Every file is checked against the manifest first (BundleError). The frames hold what a report would read from a store
after an import of the bundle, so that equal runs give equal reports.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.store.bundle.format import Bundle, damaged
from plat.store.bundle.reading import read_bundle, read_manifest
from plat.store.mlflow.frames import Frames
from plat.store.mlflow.run_tags import result_tags
from plat.store.mlflow.spelling import clean_key

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BundleResults:
    """The results in a bundle."""

    metas: dict[str, dict[str, Any]]  # run id -> content of its meta.json
    configs: dict[str, str]  # run id -> its config as YAML text
    frames: Frames  # of all runs in the bundle; without the columns axis.* and param.*
    experiments: dict[str, list[str]]  # name of each experiment file -> ids of its runs
    overrides: tuple[str, ...]  # overrides of the command line at the export


def experiments_in(folder: Path) -> list[str]:
    """Return the names of a bundle's experiment files from its manifest; raises BundleError if that is damaged."""
    return [str(experiment["name"]) for experiment in read_manifest(folder)["experiments"]]


def runs_in(folder: Path) -> set[str]:
    """Return the ids of a bundle's runs from its manifest; raises BundleError if that is damaged."""
    return {str(run) for experiment in read_manifest(folder)["experiments"] for run in experiment["runs"]}


def read_results(folder: Path, metrics: Collection[str] | None = None, tables: bool = True) -> BundleResults:
    """Return the results in a bundle; raises BundleError if it is damaged.

    metrics  keys of the metrics to read (default: all)
    tables   read the logged tables
    """
    bundle = read_bundle(folder)
    try:
        rows = bundle.tables["runs"].to_pylist()
        metas = {str(row["run_id"]): json.loads(row["meta"]) for row in rows}
        frames = Frames(_runs(rows, metas), _metrics(bundle, metrics), _tables(bundle, tables))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(f"the bundle cannot be read: {error}", folder) from error
    return BundleResults(
        metas,
        {str(row["run_id"]): row["config"] for row in rows},
        frames,
        {str(experiment["name"]): list(experiment["runs"]) for experiment in bundle.experiments},
        tuple(bundle.overrides),
    )


def _runs(rows: list[dict[str, Any]], metas: dict[str, dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    facts = []
    for row in sorted(rows, key=lambda row: str(row["run_id"])):
        run_id = str(row["run_id"])
        ended = json.loads(row["result"] or row["attempt_outcome"])
        tags = result_tags(metas[run_id], ended, json.loads(row["attempt_meta"]).get("facts"))
        line = {"run_id": run_id, "name": row["name"], "mlflow_id": "", "outcome": row["outcome"]}
        facts.append(line | {"attempt": row["attempt"]} | {f"tag.{clean_key(key)}": tags[key] for key in tags})
    return pd.DataFrame(facts, dtype=object)


def _metrics(bundle: Bundle, wanted: Collection[str] | None) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = bundle.tables["metrics"].select(["run_id", "key", "step", "value"])
    if wanted is not None:
        table = table.filter(pc.is_in(table["key"], value_set=pa.array(sorted(wanted), pa.string())))
    ordered: pd.DataFrame = table.sort_by([(name, "ascending") for name in ("run_id", "key", "step")]).to_pandas()
    return ordered


def _tables(bundle: Bundle, wanted: bool) -> pd.DataFrame:
    import pandas as pd

    names = ["run_id", "name", "step", "data"]
    table = bundle.tables["tables"].select(names)
    rows = table.to_pylist() if wanted else []
    rows.sort(key=lambda row: (row["run_id"], row["name"], row["step"]))
    return pd.DataFrame([{**row, "data": json.loads(row["data"])} for row in rows], columns=names)
