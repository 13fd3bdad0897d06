"""Dump the results in a store as plain data: two stores hold the same results exactly if their dumps are equal.

Left out: MLflow's ids, times, `time/` and `mem/` metrics, attempts, hosts, hardware, users, paths, and the curves in
MLflow's tables, which depend on when they were copied (the artifacts have every value). Uses MLflow's client only, and
is meant for small stores.
"""

from __future__ import annotations

import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

from plat.errors import StoreError
from plat.store.measured import ARTIFACT, NOT_COMPARED, decode
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import NOTE
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import shown_uri

SKIPPED = (
    "plat.measured",
    "plat.imported",
    "plat.attempt",
    "plat.ended",
    "plat.host",
    "plat.hardware",
    "plat.numerics",
    "plat.usage",
    "mlflow.user",
)


def dump(uri: str) -> dict[str, Any]:
    """Return `{experiment: {run: {...}}}`, runs by plat id or `file <name>`; raises StoreError on a duplicate run."""
    client = mlflow_client(uri)
    content: dict[str, Any] = {}
    with store_errors(uri):
        for experiment in client.search_experiments(max_results=10000):
            runs: list[Any] = []
            token = None
            while True:
                page = client.search_runs([experiment.experiment_id], max_results=1000, page_token=token)
                runs, token = [*runs, *page], page.token
                if not token:
                    break
            names = {run.info.run_id: _name(run) for run in runs}
            if len(set(names.values())) != len(names):
                raise StoreError(f"a run is stored twice in {experiment.name}", where=shown_uri(uri))
            content[experiment.name] = {names[run.info.run_id]: _run(client, run) for run in runs}
    return content


def descriptions(uri: str) -> dict[str, str]:
    """Return MLflow experiment -> description, for experiments with a description."""
    client = mlflow_client(uri)
    with store_errors(uri):
        experiments = client.search_experiments(max_results=10000)
        return {item.name: item.tags[NOTE] for item in experiments if NOTE in item.tags}


def _name(run: Any) -> str:
    tags = run.data.tags
    return tags.get("plat.id") or f"file {tags.get('plat.file', run.info.run_id)}"


def _run(client: Any, run: Any) -> dict[str, Any]:
    run_id, tags = run.info.run_id, run.data.tags
    return {
        "name": run.info.run_name,
        "status": run.info.status,
        "params": dict(run.data.params),
        "tags": {key: value for key, value in tags.items() if not key.startswith(SKIPPED)},
        "latest": {key: repr(value) for key, value in run.data.metrics.items() if not key.startswith(NOT_COMPARED)},
        "artifacts": _artifacts(client, run_id),
    }


def _artifacts(client: Any, run_id: str) -> dict[str, str]:
    """Return path -> SHA-256 of every artifact."""
    if not client.list_artifacts(run_id):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(client.download_artifacts(run_id, "", folder))
        files = [path for path in root.rglob("*") if path.is_file()]
        return {
            name: _content(name, path.read_bytes()) for path in sorted(files) if (name := str(path.relative_to(root)))
        }


def _content(name: str, data: bytes) -> Any:
    """Return what two executions of one run have in common in an artifact."""
    if name != ARTIFACT:
        return sha256(data).hexdigest()
    found = decode(data)
    metrics, tables = found.history()
    values = [(row.key, row.step, repr(row.value)) for row in metrics if not row.key.startswith(NOT_COMPARED)]
    tags = {key: value for key, value in found.facts["tags"].items() if not key.startswith(SKIPPED)}
    return values, [(row.name, row.step, row.data) for row in tables], tags, found.facts["axes"]
