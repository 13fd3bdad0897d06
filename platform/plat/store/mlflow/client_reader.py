"""Read any store through MLflow's client: slow, with one request per metric of each run."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from plat.store.mlflow.backend import RawRun, Series, restore
from plat.store.mlflow.client_runs import is_archived, is_twin
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.store_errors import store_errors


class ClientReader:
    """A `backend.RawReader` for stores behind MLflow's client. Call `runs` before `series`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        self._keys: dict[str, list[str]] = {}  # MLflow id -> metric keys of the run

    def close(self) -> None:
        pass

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        from mlflow.entities import ViewType

        with store_errors(self.uri):
            found = find_runs(self.client, f"tags.`plat.in.{file}` = '1'", ViewType.ACTIVE_ONLY)
        runs = []
        for run in found:
            info, data = run.info, run.data
            self._keys[info.run_id] = sorted(data.metrics)
            given = data.params if params else {}
            runs.append(RawRun(info.run_id, info.run_name, data.tags, given, info.artifact_uri))
        return runs

    def deleted(self, file: str) -> set[str]:
        from mlflow.entities import ViewType

        with store_errors(self.uri):
            found = find_runs(self.client, f"tags.`plat.in.{file}` = '1'", ViewType.DELETED_ONLY)
        runs = [run for run in found if not is_archived(run) and not is_twin(run)]
        return {run.data.tags["plat.id"] for run in runs if "plat.id" in run.data.tags}

    def series(self, run: RawRun, keys: Collection[str] | None = None) -> Series:
        import numpy as np

        keys = [key for key in self._keys[run.mlflow_id] if keys is None or key in keys]
        with store_errors(self.uri):
            histories = [_by_step(self.client.get_metric_history(run.mlflow_id, key)) for key in keys]
        points = [point for history in histories for point in history]
        steps = np.array([point.step for point in points], dtype=np.int64)
        values = np.array([point.value for point in points], dtype=np.float64)
        return Series(keys, [len(history) for history in histories], steps, restore(values))

    def artifact(self, run: RawRun, name: str) -> bytes | None:
        with store_errors(self.uri):
            if name not in {entry.path for entry in self.client.list_artifacts(run.mlflow_id)}:
                return None
            with tempfile.TemporaryDirectory() as folder:
                return Path(self.client.download_artifacts(run.mlflow_id, name, folder)).read_bytes()


def _by_step(history: list[Any]) -> list[Any]:
    """Return one point per step, sorted; the first of duplicates, which two importers at once may leave."""
    first: dict[int, Any] = {}
    for point in sorted(history, key=lambda point: (point.step, point.timestamp)):
        first.setdefault(point.step, point)
    return list(first.values())
