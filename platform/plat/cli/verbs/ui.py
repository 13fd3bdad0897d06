"""`plat ui`: show the store on MLflow's own web page, for this machine alone."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from plat.cli.common import HomeOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import UiData
from plat.errors import SpecError, StoreError
from plat.store.home import Home
from plat.store.mlflow.uri import shown_uri

HOST = "127.0.0.1"
# Training runs with their curves: not chats, and not the runs of experiment files, which hold reports.
AS_CURVES = "workflowType=machine_learning&compareRunsMode=CHART&searchFilter=tags.%60plat.kind%60%3D%27run%27"


@verb(UiData)
def ui(
    home: HomeOption = None,
    store: StoreOption = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port of the web page.")] = 5000,
) -> Result:
    """Show the store on MLflow's web page."""
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    if uri.startswith(("http://", "https://")):
        return Result({"page": shown_uri(uri)}, f"the store is a server already: open {shown_uri(uri)}")
    _check_there_is_one(uri)
    from plat.store.mlflow.mlflow_client import quiet
    from plat.store.mlflow.uri import artifact_root

    page = f"http://{HOST}:{port}" + _runs_page(uri)
    _check_port(port)
    quiet()
    command = [sys.executable, "-P", "-m", "mlflow", "ui", "--workers", "1"]
    command += ["--host", HOST, "--port", str(port)]  # explicit, because MLFLOW_HOST could make the page public
    artifacts = artifact_root(uri)
    if artifacts:
        command += ["--default-artifact-root", artifacts]

    def serve() -> int:
        # Every user of the machine can read the command, and nobody else the environment: the URI may have a password.
        os.execve(sys.executable, command, {**os.environ, "MLFLOW_BACKEND_STORE_URI": uri})

    return Result({"page": page}, f"MLflow on {shown_uri(uri)}: {page} (Ctrl-C ends it)", then=serve)


def _check_there_is_one(uri: str) -> None:
    """Raise StoreError where MLflow would make a new store, or end with a traceback."""
    from plat.store.mlflow.uri import sqlite_path

    path = sqlite_path(uri)
    if path is not None and not path.exists():
        what = "there is no store yet"
        raise StoreError(what, where=str(path), fix="`plat sweep experiments/quickstart.yaml` makes one")
    if uri.startswith("file:") or ("://" not in uri and uri != "databricks"):
        raise StoreError("MLflow's page shows no plain folder", where=uri, fix="name sqlite:///FILE.db or a server")


def _check_port(port: int) -> None:
    """Raise SpecError when MLflow cannot listen on this port."""
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as MLflow's server does
        try:
            probe.bind((HOST, port))
        except OSError as error:
            what = f"port {port} cannot be used: {error.strerror}"
            raise SpecError(what, where="--port", fix="name another with --port N") from error


def _runs_page(uri: str) -> str:
    """Return the path of MLflow's page for the newest runs and their curves; "" if unknown. Checks the store."""
    from plat.store.mlflow.mlflow_client import mlflow_client
    from plat.store.mlflow.sqlite_file import check_file
    from plat.store.mlflow.store_errors import store_errors
    from plat.store.mlflow.uri import sqlite_path

    path = sqlite_path(uri)
    if path is None or not path.exists():
        return ""
    check_file(path)
    with store_errors(uri):
        client = mlflow_client(uri)
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        newest = client.search_runs(experiments, max_results=1, order_by=["attributes.start_time DESC"])
    return f"/#/experiments/{newest[0].info.experiment_id}/runs?{AS_CURVES}" if newest else ""
