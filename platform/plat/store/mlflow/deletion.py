"""Take runs out of a store (`plat rm`).

A removed run can be done and imported again. MLflow's client cannot delete a run for good: it goes into MLflow's bin
without the tag `plat.id`, from where `mlflow gc` removes it. The artifacts of a SQLite store are deleted at once.
"""

from __future__ import annotations

from collections.abc import Sequence

from plat.store.home import Home
from plat.store.mlflow.artifacts import remove_files
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.importer import import_lock
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.sqlite_file import has_content
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path


def remove(home: Home, uri: str, run_ids: Sequence[str]) -> None:
    """Remove these runs, by plat id, and their artifacts, if there is a store.

    Raises StoreError if the store cannot be changed; the same call later removes the rest.
    """
    path = sqlite_path(uri)
    if path is not None and not has_content(path):
        return
    from mlflow.entities import ViewType

    with import_lock(home), open_writer(home, uri) as writer, store_errors(uri):
        client = writer.client
        for run_id in run_ids:
            for run in find_runs(client, f"tags.`plat.id` = '{run_id}'", ViewType.ALL):
                if run.info.lifecycle_stage != "active":
                    client.restore_run(run.info.run_id)
                client.delete_tag(run.info.run_id, "plat.id")
                client.delete_run(run.info.run_id)
                remove_files(uri, run.info.artifact_uri)
            writer.known([run_id]).pop(run_id, None)


def twins(home: Home, uri: str) -> list[str]:
    """Return the MLflow ids of twins in the bin, which plat does not need. StoreError if the store cannot be read."""
    if sqlite_path(uri) is not None:
        return []  # a SQLite store has one importer at a time
    from mlflow.entities import ViewType

    from plat.store.mlflow.client_runs import is_twin
    from plat.store.mlflow.stored_runs import TWIN

    with store_errors(uri):
        found = find_runs(mlflow_client(uri), f"tags.`{TWIN}` LIKE '%'", ViewType.ALL)
    return sorted(run.info.run_id for run in found if is_twin(run))
