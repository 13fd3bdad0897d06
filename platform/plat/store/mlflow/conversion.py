"""Convert a store of plat 0.4, whose metrics are in MLflow's tables alone (`plat sync --convert`).

Runs with a directory are converted by any import. The others are read through MLflow's client, which takes one request
a metric: their metrics, their tables (`tables.jsonl`) and their config become the artifact that readers need.
"""

from __future__ import annotations

import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.store.home import Home
from plat.store.measured import ARTIFACT, encode, sha256_of
from plat.store.mlflow.artifacts import local_folder, log_files
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.importer import Follow, as_they_are, import_lock
from plat.store.mlflow.run_tags import metric_name
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.stored_runs import MEASURED, StoredRun, stored_runs
from plat.store.run_directory.history import Metric, Table

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

TABLES = "tables.jsonl"
CONFIG = "config.yaml"
DIGEST = "plat.digest"  # tags of plat 0.4
LARGEST = 1.7976931348623157e308  # MLflow's SQL stores keep infinity as this number


def older_runs(home: Home, uri: str) -> list[StoredRun]:
    """Return the ended runs of a store that have no artifact. Raises StoreError if it cannot be read."""
    runs = stored_runs(home, uri).values()
    return [run for run in runs if run.measured is None and run.outcome and not run.deleted]


def convert(home: Home, uri: str, runs: list[StoredRun], follow: Follow = as_they_are) -> None:
    """Log the artifact of each of these runs from what MLflow's tables and artifacts have of it.

    A killed conversion leaves whole runs; the same call converts the rest. Raises StoreError if the store cannot be
    used or a run cannot be read.
    """
    with import_lock(home), open_writer(home, uri) as writer, store_errors(uri):
        for run in follow(runs, "converting runs"):
            stored = writer.client.get_run(run.mlflow_id)
            data = _measured(writer.client, uri, stored)
            log_files(writer.client, uri, run.mlflow_id, stored.info.artifact_uri, {ARTIFACT: data})
            for tag in [tag for tag in stored.data.tags if tag.startswith(DIGEST)]:
                writer.client.delete_tag(run.mlflow_id, tag)
            writer.tag(run, {MEASURED: sha256_of(data)})


def _measured(client: MlflowClient, uri: str, run: Run) -> bytes:
    """Return the artifact of a run of plat 0.4."""
    tags = {key: value for key, value in run.data.tags.items() if _is_fact(key)}
    axes = json.loads(tags.get("plat.axes", "{}"))
    points: dict[tuple[str, int], Metric] = {}
    for key in run.data.metrics:
        for point in sorted(client.get_metric_history(run.info.run_id, key), key=lambda point: point.timestamp):
            value = float("inf") * (1 if point.value > 0 else -1) if abs(point.value) >= LARGEST else point.value
            metric = Metric(metric_name(key), point.step, value, point.timestamp / 1000)
            points.setdefault((key, point.step), metric)  # the first value wins
    lines = (_file(client, uri, run, TABLES) or b"").splitlines()
    rows = [json.loads(line) for line in lines]
    tables = [Table(str(row["name"]), int(row["step"]), row["data"], 0.0) for row in rows]
    meta = {"id": tags["plat.id"], "name": tags.get("plat.name", run.info.run_name), "axes": axes}
    config = (_file(client, uri, run, CONFIG) or b"").decode(errors="replace")
    about = {"meta": meta, "config": config, "attempt": int(tags.get("plat.attempt", 0))}
    facts = {"tags": tags, "axes": axes, "status": run.info.status, "run": about}
    return encode(facts, list(points.values()), tables)


def _is_fact(key: str) -> bool:
    """Return True for a tag that describes a run of plat."""
    others = ("plat.in.", "plat.study.", "plat.imported", DIGEST)
    return key.startswith(("plat.", "mlflow.source.git")) and not key.startswith(others)


def _file(client: MlflowClient, uri: str, run: Run, name: str) -> bytes | None:
    """Return an artifact of a run, None if there is none."""
    folder = local_folder(uri, run.info.artifact_uri)
    if folder is not None:
        with suppress(OSError):
            return (folder / name).read_bytes()
        return None
    listed: list[Any] = client.list_artifacts(run.info.run_id)
    if name not in {entry.path for entry in listed}:
        return None
    with tempfile.TemporaryDirectory() as scratch:
        return Path(client.download_artifacts(run.info.run_id, name, scratch)).read_bytes()
