"""Reads any store through MLflow's client: one request per metric of each run, slow but everywhere the same."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

from plat.store.mlflow.client import mlflow_client
from plat.store.mlflow.client_runs import is_archived, is_twin
from plat.store.mlflow.raw import RawRun, Series, restore
from plat.store.mlflow.store_errors import store_errors


class ClientReader:
    """See `raw.RawReader`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        self._keys: dict[str, list[str]] = {}  # of each run read, by MLflow id

    def close(self) -> None:
        self._keys.clear()

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        runs = []
        for run in self._search(file):
            info, data = run.info, run.data
            self._keys[info.run_id] = sorted(data.metrics)
            given = data.params if params else {}
            runs.append(RawRun(info.run_id, info.run_name, data.tags, given, info.artifact_uri))
        return runs

    def deleted(self, file: str) -> set[str]:
        runs = [run for run in self._search(file, in_bin=True) if not is_archived(run) and not is_twin(run)]
        return {run.data.tags["plat.id"] for run in runs if "plat.id" in run.data.tags}

    def _search(self, file: str, *, in_bin: bool = False) -> list[Any]:
        """The MLflow runs that a file asks for: the active ones, or those in MLflow's bin."""
        from mlflow.entities import ViewType

        found: list[Any] = []
        with store_errors(self.uri):
            kind = ViewType.ALL if in_bin else ViewType.ACTIVE_ONLY
            experiments = [entity.experiment_id for entity in self.client.search_experiments(kind, max_results=10000)]
            token = None
            while True:
                page = self.client.search_runs(
                    experiments,
                    f"tags.`plat.in.{file}` = '1'",
                    ViewType.DELETED_ONLY if in_bin else ViewType.ACTIVE_ONLY,
                    max_results=1000,
                    page_token=token,
                )
                found += page
                token = page.token
                if not token:
                    return found

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
    """One point for each step, in their order. Of several, which two importers at once may leave, the first."""
    first: dict[int, Any] = {}
    for point in sorted(history, key=lambda point: (point.step, point.timestamp)):
        first.setdefault(point.step, point)
    return list(first.values())
