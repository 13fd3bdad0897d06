"""Read and write the artifacts of MLflow runs: by path where their folder is on this machine, else through MLflow.

MLflow stores absolute paths. Those of a store that was moved or copied with its folder `mlartifacts` lead elsewhere, so
the folder beside a SQLite file comes first. What is read is verified by its hash: a wrong place gives no wrong number.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from plat.plain_files import read_bytes
from plat.store.disk import durable
from plat.store.home import Home
from plat.store.measured import ARTIFACT, LARGEST, Measured, decode, sha256_of
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.stored_runs import StoredRun
from plat.store.mlflow.uri import ARTIFACTS, sqlite_path

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

AT_ONCE = 8  # downloads from a server


class Edited(Exception):
    """An error, in words: the artifact of a run is missing, or is not the one that was logged."""


def local_folder(uri: str, folder: str) -> Path | None:
    """Return the folder of the artifacts of a run, if it can be on this machine.

    uri     of the store
    folder  the URI of the run's artifacts in MLflow
    """
    parts = urlsplit(folder)
    if parts.scheme not in ("", "file"):
        return None
    named = Path(unquote(parts.path) if parts.scheme else folder)
    database = sqlite_path(uri)
    if database is not None and len(named.parts) > 4 and named.parts[-4] == ARTIFACTS:
        return database.parent.joinpath(*named.parts[-4:])  # <store>/mlartifacts/<experiment>/<run>/artifacts
    return named if database is not None or named.is_dir() else None


def read_artifacts(home: Home, uri: str, runs: Sequence[StoredRun]) -> dict[str, Measured | Edited]:
    """Return plat id -> verified content of the artifact of each run, or what is wrong with it.

    Files of a server are downloaded once and kept in the cache of the home. Raises StoreError if it does not answer.
    """
    client: MlflowClient | None = None
    far = [run for run in runs if local_folder(uri, run.folder) is None and not _kept(home, run).exists()]
    if far:
        client = mlflow_client(uri)
        with store_errors(uri), ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda run: _download(client, home, run), far))
    return {run.id: _checked(home, uri, run) for run in runs}


def read_artifact(home: Home, uri: str, run: StoredRun) -> Measured | Edited:
    """Return the verified content of the artifact of one run, or what is wrong with it."""
    return read_artifacts(home, uri, [run])[run.id]


def _checked(home: Home, uri: str, run: StoredRun) -> Measured | Edited:
    folder = local_folder(uri, run.folder)
    path = _kept(home, run) if folder is None else folder / ARTIFACT
    try:
        data = read_bytes(path, LARGEST)
        if sha256_of(data) != run.measured:
            return Edited(f"its {ARTIFACT} is not the one that was logged")
        found = decode(data)
        other = found.facts["tags"]["plat.id"]
        return found if other == run.id else Edited(f"its {ARTIFACT} is of run {other}")
    except FileNotFoundError:
        return Edited(f"its {ARTIFACT} is missing")
    except (OSError, ValueError, KeyError, TypeError) as error:
        return Edited(f"its {ARTIFACT} cannot be read: {error}")


def _kept(home: Home, run: StoredRun) -> Path:
    digest = str(run.measured)
    return home.cache / "measured" / digest[:2] / f"{digest}.parquet"


def _download(client: MlflowClient, home: Home, run: StoredRun) -> None:
    """Download the artifact of a run into the cache of the home, if it is the one that was logged."""
    from mlflow.exceptions import MlflowException

    with tempfile.TemporaryDirectory() as scratch:
        try:
            data = Path(client.download_artifacts(run.mlflow_id, ARTIFACT, scratch)).read_bytes()
        except (MlflowException, FileNotFoundError) as error:
            # a missing file is the run's trouble, a server that does not answer is everybody's
            if any(word in str(error) for word in ("404", "not found", "No such", "does not exist")):
                return
            raise
    if sha256_of(data) == run.measured:
        path = _kept(home, run)
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write(path, data, sync=False)


def log_files(client: MlflowClient, uri: str, mlflow_id: str, folder: str, files: Mapping[str, bytes]) -> None:
    """Log files (path -> content) as artifacts of an MLflow run, whose artifacts are at the URI `folder`."""
    here = local_folder(uri, folder)
    if here is not None:  # MLflow would write where the store was, and change the modes of other users' folders
        for name, data in files.items():
            (here / name).parent.mkdir(parents=True, exist_ok=True)
            durable.write(here / name, data, sync=False)
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name, data in files.items():
            path = Path(scratch) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        client.log_artifacts(mlflow_id, scratch)


def remove_other_files(client: MlflowClient, uri: str, run: Run, folder: str, kept: Collection[str]) -> None:
    """Delete the artifacts of an MLflow run below `folder`, except those of these paths."""
    here = local_folder(uri, run.info.artifact_uri)
    if here is not None:
        for path in sorted((here / folder).rglob("*"), reverse=True):
            if path.is_dir():
                with contextlib.suppress(OSError):  # it has files
                    path.rmdir()
            elif path.relative_to(here).as_posix() not in kept:
                path.unlink()
        return
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    repository = None
    for entry in client.list_artifacts(run.info.run_id, folder):
        if entry.is_dir:
            remove_other_files(client, uri, run, entry.path, kept)
        elif entry.path not in kept:
            repository = repository or get_artifact_repository(run.info.artifact_uri, tracking_uri=uri)
            repository.delete_artifacts(entry.path)  # type: ignore[no-untyped-call]


def remove_files(uri: str, folder: str) -> None:
    """Delete the folder of the artifacts of a run, if it is in the folder beside a SQLite store."""
    here = local_folder(uri, folder)
    if here is not None and here.parent.parent.parent.name == ARTIFACTS:
        with contextlib.suppress(OSError):
            shutil.rmtree(here.parent)
