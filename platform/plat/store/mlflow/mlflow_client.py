"""Create MLflow's client without its log output; imports MLflow only on use (about one second and 200 MB)."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from plat.store.mlflow.sqlite_file import read_only_uri
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

_INODES: dict[str, list[int]] = {}  # path of a SQLite file -> inodes of the files that this process has seen there
DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # report an unreachable server within seconds, not minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # saves two requests and two lines on stdout per run
    "GIT_PYTHON_REFRESH": "quiet",
}


def quiet() -> None:
    """Silence MLflow in this process and its children; call it before the first import of MLflow.

    Sets log levels, and those environment variables of QUIET that the user has not set.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def mlflow_client(uri: str) -> MlflowClient:
    """Return a client of this store. Raises StoreError if its database server does not answer within 10 s."""
    quiet()
    with store_errors(uri):
        parts = urlsplit(uri)
        port = DATABASE_PORTS.get(parts.scheme.partition("+")[0])
        if parts.hostname and port:  # MLflow itself would retry for minutes
            socket.create_connection((parts.hostname, parts.port or port), timeout=10).close()
        from mlflow import MlflowClient

        path = sqlite_path(uri)
        if path is not None:  # else a process keeps the connections of every store that it has opened
            os.environ.setdefault("MLFLOW_SQLALCHEMYSTORE_POOLCLASS", "NullPool")
        return MlflowClient(uri if path is None or not path.exists() else read_only_uri(path) or _own_uri(path))


def _own_uri(path: Path) -> str:
    """Return a URI of a SQLite file that this process has used for no earlier file at this path.

    MLflow keeps the connections of a URI, and would go on to write into a file that was deleted or replaced.
    """
    inodes = _INODES.setdefault(str(path), [])
    inode = path.stat().st_ino
    if inode not in inodes:
        inodes.append(inode)
    return f"sqlite:///{path.parent}/{'./' * inodes.index(inode)}{path.name}"


def plat_id(uri: str, mlflow_id: str) -> str | None:
    """Return the id that plat gives to a run of MLflow; None for a run that plat did not write, or no run.

    Raises StoreError if the store cannot be read.
    """
    path = sqlite_path(uri)
    if path is not None and not path.exists():
        return None  # MLflow's client would make the file
    client = mlflow_client(uri)
    from mlflow.exceptions import MlflowException

    with store_errors(uri):
        try:
            return client.get_run(mlflow_id).data.tags.get("plat.id")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return None


def find_runs(client: MlflowClient, query: str, view: Any, experiments: Sequence[str] | None = None) -> list[Run]:
    """Return every run that a query finds, in all pages of the answer.

    view         a ViewType: active runs, those in MLflow's bin, or all
    experiments  ids of the MLflow experiments to search; by default all, only active ones for active runs
    """
    from mlflow.entities import ViewType

    if experiments is None:
        among = view if view == ViewType.ACTIVE_ONLY else ViewType.ALL
        found = client.search_experiments(view_type=among, max_results=10000)
        experiments = [experiment.experiment_id for experiment in found]
    runs: list[Run] = []
    token = None
    while True:
        page = client.search_runs(list(experiments), query, view, max_results=1000, page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs
