"""Check that this machine can write artifacts to a server, and read them back, before runs are executed for it."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from plat.errors import StoreError
from plat.store.disk import durable
from plat.store.home import Home
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import shown_uri

if TYPE_CHECKING:
    from mlflow import MlflowClient

PLACE = "plat · check"  # MLflow experiment of the file that is written and read back
FIX = (
    "start it with `mlflow server --serve-artifacts --artifacts-destination FOLDER` (or a bucket), "
    "so that clients need no access to that place; experiments that exist keep their old place: use a new database"
)


def check_artifacts(home: Home, uri: str) -> None:
    """Raise StoreError unless a file that is logged to the server at `uri` is read back unchanged.

    Other stores keep artifacts on this machine and pass. A server that has passed is not asked again from this home.
    Writes one run, which goes into MLflow's bin.
    """
    if not uri.startswith(("http://", "https://")):
        return
    passed = home.cache / "stores" / f"{sha256(uri.encode()).hexdigest()[:16]}.checked"
    if passed.exists():
        return
    client = mlflow_client(uri)
    with store_errors(uri):
        number = _experiment(client)
        run = client.create_run(number, run_name="check")
    try:
        _write_and_read(client, uri, run.info.run_id, run.info.artifact_uri)
    finally:
        with contextlib.suppress(Exception):  # what it tells was told by the check
            client.delete_run(run.info.run_id)
    if home.exists():
        with contextlib.suppress(OSError):  # a read-only home: it is checked again
            passed.parent.mkdir(parents=True, exist_ok=True)
            durable.write(passed, b"", sync=False)


def _experiment(client: MlflowClient) -> str:
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(PLACE)
    if experiment is None:
        try:
            return str(client.create_experiment(PLACE))
        except MlflowException:
            experiment = client.get_experiment_by_name(PLACE)  # another home may have just created it
            if experiment is None:
                raise
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


def _write_and_read(client: MlflowClient, uri: str, run: str, place: str) -> None:
    """Raise StoreError unless a file that is logged to this run is read back."""
    host = urlsplit(uri).hostname or ""
    is_local = urlsplit(place).scheme in ("", "file")
    if is_local and host not in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn()):
        raise _refusal(uri, f"it names a folder of its own machine for them: {place}")
    try:
        client.log_text(run, "plat", "check.txt")
        with tempfile.TemporaryDirectory() as folder:
            found = Path(client.download_artifacts(run, "check.txt", folder)).read_bytes()
    except Exception as error:  # storage has as many kinds of errors as there are kinds of storage
        first = next(iter(str(error).splitlines()), type(error).__name__)
        raise _refusal(uri, first[:200]) from error
    if found != b"plat":
        raise _refusal(uri, f"{place} gives back another file than was written")


def _refusal(uri: str, why: str) -> StoreError:
    what = f"this machine cannot write the artifacts of this server and read them back: {why}"
    return StoreError(what, where=shown_uri(uri), fix=FIX)
