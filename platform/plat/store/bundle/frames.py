"""The results in a bundle as frames, read without a home or a store: for reports beside which a bundle lies.

Promised: every file is checked against the manifest first (BundleError); the frames hold of each run what a report
reads from a store into which the bundle was imported, so that equal runs give equal reports.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError
from plat.store.bundle.format import EXPORT_AGAIN, Bundle
from plat.store.bundle.manifest import read_manifest
from plat.store.bundle.reading import read_bundle
from plat.store.mlflow.frames import Frames
from plat.store.mlflow.run_tags import result_tags
from plat.store.mlflow.spelling import clean_key

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class BundleResults:
    """What a bundle holds.

    metas        run id -> the content of its meta.json
    configs      run id -> its config as YAML text
    frames       of all runs, without the columns of axes and parameters
    experiments  name of each experiment file -> the ids of its runs
    overrides    what the command line changed in the experiment files when the bundle was made
    """

    metas: dict[str, dict[str, Any]]
    configs: dict[str, str]
    frames: Frames
    experiments: dict[str, list[str]]
    overrides: tuple[str, ...]


def experiments_in(folder: Path) -> list[str]:
    """The names of the experiment files of a bundle, from its manifest alone; BundleError where that is damaged."""
    return [str(experiment["name"]) for experiment in read_manifest(folder)["experiments"]]


def runs_in(folder: Path) -> set[str]:
    """The ids of the runs of a bundle, from its manifest alone; BundleError where that is damaged."""
    return {str(run) for experiment in read_manifest(folder)["experiments"] for run in experiment["runs"]}


def read_results(folder: Path, metrics: Collection[str] | None = None, tables: bool = True) -> BundleResults:
    """The results in a bundle; BundleError when it is damaged.

    metrics  the metrics that are wanted (default: all)
    tables   whether the logged tables are wanted
    """
    bundle = read_bundle(folder)
    try:
        rows = bundle.tables["runs"].to_pylist()
        metas = {str(row["run_id"]): json.loads(row["meta"]) for row in rows}
        frames = Frames(_runs(rows, metas), _metrics(bundle, metrics), _tables(bundle, tables))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BundleError(f"the bundle cannot be read: {error}", where=str(folder), mend=EXPORT_AGAIN) from error
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
    import pyarrow.compute as pc

    table = bundle.tables["metrics"].select(["run_id", "key", "step", "value"])
    if wanted is not None:
        table = table.filter(pc.is_in(table["key"], value_set=_texts(wanted)))
    ordered: pd.DataFrame = table.sort_by([(name, "ascending") for name in ("run_id", "key", "step")]).to_pandas()
    return ordered


def _tables(bundle: Bundle, wanted: bool) -> pd.DataFrame:
    import pandas as pd

    names = ["run_id", "name", "step", "data"]
    table = bundle.tables["tables"].select(names)
    rows = table.to_pylist() if wanted else []
    rows.sort(key=lambda row: (row["run_id"], row["name"], row["step"]))
    return pd.DataFrame([{**row, "data": json.loads(row["data"])} for row in rows], columns=names)


def _texts(values: Collection[str]) -> pa.Array:
    import pyarrow as pa

    return pa.array(sorted(values), pa.string())
