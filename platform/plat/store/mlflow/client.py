"""MLflow's own client, kept quiet, and imported only where it is needed (about one second and 200 MB)."""

from __future__ import annotations

import logging
import os
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from plat.store.mlflow.store_errors import store_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient

DATABASE_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # an unreachable server is said within seconds, not minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # two requests and two lines on stdout per run
    "GIT_PYTHON_REFRESH": "quiet",
}


def quiet() -> None:
    """Silence MLflow before its first import; what the user has set in the environment is left alone."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def mlflow_client(uri: str) -> MlflowClient:
    """A client of this store, or StoreError."""
    quiet()
    with store_errors(uri):
        _reach(uri)
        from mlflow import MlflowClient

        return MlflowClient(uri)


def _reach(uri: str) -> None:
    """Fail at once when no database server answers; MLflow itself would try for minutes."""
    parts = urlsplit(uri)
    scheme = parts.scheme.partition("+")[0]
    if parts.hostname and scheme in DATABASE_PORTS:
        socket.create_connection((parts.hostname, parts.port or DATABASE_PORTS[scheme]), timeout=10).close()
