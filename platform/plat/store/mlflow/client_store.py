"""Any store MLflow's own client can reach (a server, PostgreSQL, MySQL), written through that client.

The server gives the MLflow ids here, so a run is found again by its tag `plat.id`. Its history is compared before
anything is added. The tag `plat.imported` is written last: without it the next import looks at the run again.

The lock of a home does not reach the other homes whose runs go to the same server, and MLflow cannot create a run on
the condition that there is none. So whoever has created one searches again: of several runs that are the same, all
importers keep the same one (`_kept`) and delete the others. Until a run is stored as a whole, `plat.imported` says
which home writes it, and other homes wait for that one, PATIENCE seconds at most.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import (
    SIGNATURE,
    Deleted,
    DeletedExperiment,
    FileInfo,
    Known,
    Stored,
    conflict,
    sql_value,
    stale_tags,
    together,
)
from plat.store.mlflow.client import mlflow_client
from plat.store.mlflow.record import RunRecord
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run

WRITING = "being written since "  # the tag plat.imported of a run that is not stored as a whole yet
PATIENCE = 30.0  # seconds; then the home that began to write is taken for dead
FEW = 5  # so many runs are asked for one by one instead of reading them all


class ClientStore:
    """See `backend.Backend`."""

    def __init__(self, uri: str, home: Home) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        remote = uri.startswith(("http://", "https://", "databricks"))
        # a server has a place for artifacts of its own, a database has none
        self.root = None if remote else artifact_root(uri) or str(home.root / "mlartifacts")
        self._runs: dict[str, Run] = {}  # what was read, by MLflow id
        self._writer = f" by {socket.gethostname()}:{home.root.resolve()}"

    def close(self) -> None:
        self._runs.clear()

    def check(self) -> None:
        with store_errors(self.uri):
            self.client.search_experiments(max_results=1)

    def known(self, ids: Iterable[str] | None = None) -> dict[str, Known]:
        wanted = None if ids is None else list(ids)
        filters = ["tags.`plat.kind` = 'run'"]
        if wanted is not None and len(wanted) <= FEW:
            filters = [f"tags.`plat.id` = '{plat_id}'" for plat_id in wanted]
        by_id: dict[str, Known] = {}
        for run in (run for query in filters for run in self._search(query)):
            plat_id, known = run.data.tags.get("plat.id"), _known(run)
            if plat_id and (plat_id not in by_id or by_id[plat_id].deleted):
                by_id[plat_id] = known
        return by_id

    def stored(self, known: Known) -> Stored:
        with store_errors(self.uri):
            return self._stored(self._runs.get(known.mlflow_id) or self.client.get_run(known.mlflow_id))

    def _stored(self, run: Run) -> Stored:
        histories = [self.client.get_metric_history(run.info.run_id, key) for key in run.data.metrics]
        values = {(point.key, point.step): sql_value(point.value) for history in histories for point in history}
        return Stored(values, run.data.tags, run.data.params, run.info.artifact_uri)

    def file_run(self, experiment: str, file: FileInfo) -> str:
        with store_errors(self.uri):
            number = self._experiment(experiment)
            run = self._find_file(number, file.name)
            if run is None:
                tags = {"mlflow.runName": file.name, **file.tags()}
                made = self.client.create_run(number, tags=tags, run_name=file.name)
                self.client.update_run(made.info.run_id, status="FINISHED")
                run = self._kept(made, f"tags.`plat.file` = '{file.name}'", [number])
            if run.info.lifecycle_stage != "active":
                raise Deleted(file.name)
            self._set_tags(run, file.tags())
            return str(run.info.run_id)

    def write(self, record: RunRecord, known: Known | None, parent: str | None) -> bool:
        try:
            return self._write(record, known, parent)
        except StoreError:
            # An importer of another home may have created the same run, and deleted this one as the later of the two.
            same = [run for run in self._search(f"tags.`plat.id` = '{record.id}'") if _is_active(run)]
            if known is not None or not same:
                raise
            return self._write(record, _known(same[0]), parent)

    def _write(self, record: RunRecord, known: Known | None, parent: str | None) -> bool:
        from mlflow.entities import Metric, Param

        with store_errors(self.uri):
            if known is None:
                number = self._experiment(record.experiment)
                tags = {"plat.kind": "run", "plat.id": record.id, SIGNATURE: self._mark()}
                tags |= {"mlflow.parentRunId": parent} if parent else {}
                made = self.client.create_run(number, start_time=record.start, tags=tags, run_name=record.name)
                run = self._kept(made, f"tags.`plat.id` = '{record.id}'")
            else:
                run = self._runs.get(known.mlflow_id) or self.client.get_run(known.mlflow_id)
            run = self._when_written(run)
            run_id = run.info.run_id
            stored = self._stored(run)
            if conflict(record, stored):
                return False
            missing = [point for point in record.points if (point.key, point.step) not in stored.values]
            for first in range(0, len(missing), 1000):
                batch = missing[first : first + 1000]
                points = [Metric(key, value, time, step) for key, step, value, time in batch]
                self.client.log_batch(run_id, metrics=points)
            params = [Param(key, value) for key, value in record.params.items() if key not in run.data.params]
            for first in range(0, len(params), 100):
                self.client.log_batch(run_id, params=params[first : first + 100])
            self._upload(run_id, record.artifacts)
            for key in stale_tags(run.data.tags, record.tags):
                self.client.delete_tag(run_id, key)
            self._set_tags(run, record.tags)
            if record.status == "RUNNING":
                self.client.update_run(run_id, status="RUNNING")
            else:
                self.client.set_terminated(run_id, record.status, record.end)
            self._set_tags(run, {SIGNATURE: record.signature})
            self._runs.pop(run_id, None)
            return True

    def settle(self, experiment: str, file: str) -> None:
        with store_errors(self.uri):
            number = self._experiment(experiment)
            run = self._find_file(number, file)
            runs = self._search(f"tags.`plat.in.{file}` = '1'", [number])
            active = [member for member in runs if _is_active(member)]
            status, _, end = together((run.info.status, run.info.start_time, run.info.end_time) for run in active)
            if run is None or not _is_active(run):
                return
            deleted = self._deleted_files(number, file)
            for member in active:  # their parent may have been the later of two that were created at once
                if member.data.tags.get("mlflow.parentRunId") in deleted:
                    self.client.set_tag(member.info.run_id, "mlflow.parentRunId", run.info.run_id)
            if status == "RUNNING":
                self.client.update_run(run.info.run_id, status=status)
            else:
                self.client.set_terminated(run.info.run_id, status, end)

    def replace_report(self, run: str, artifacts: Mapping[str, Path], values: Mapping[str, float], time: int) -> None:
        from mlflow.entities import Metric

        with store_errors(self.uri):
            self._upload(run, {f"report/{name}": path.read_bytes() for name, path in artifacts.items()})
            self._remove_others(run, "report", {f"report/{name}" for name in artifacts})
            points = [Metric(key, float(value), time, 0) for key, value in values.items()]  # the newest counts
            for first in range(0, len(points), 1000):
                self.client.log_batch(run, metrics=points[first : first + 1000])

    def _remove_others(self, run: str, folder: str, kept: set[str]) -> None:
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        repository = None
        for entry in self.client.list_artifacts(run, folder):
            if entry.is_dir:
                self._remove_others(run, entry.path, kept)
            elif entry.path not in kept:
                uri = self.client.get_run(run).info.artifact_uri
                repository = repository or get_artifact_repository(uri, tracking_uri=self.uri)
                repository.delete_artifacts(entry.path)  # type: ignore[no-untyped-call]

    def _experiment(self, name: str) -> str:
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            return self._create_experiment(name)
        if experiment.lifecycle_stage != "active":
            raise DeletedExperiment(name)
        return str(experiment.experiment_id)

    def _create_experiment(self, name: str) -> str:
        from mlflow.exceptions import MlflowException

        place = None if self.root is None else f"{self.root}/{sha256(name.encode()).hexdigest()[:8]}"
        try:
            return str(self.client.create_experiment(name, place))
        except MlflowException:
            experiment = self.client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)  # an importer of another home was faster

    def _kept(self, made: Run, query: str, experiments: list[str] | None = None) -> Run:
        """The one run to keep of those that a query finds, after `made` was created because it found none.

        One that is stored as a whole comes first, then the one that was created first. The others are deleted.
        """

        def order(run: Run) -> tuple[bool, str, int, str]:
            return _is_written(run), run.data.tags.get(SIGNATURE, ""), run.info.start_time, run.info.run_id

        same = [run for run in self._search(query, experiments) if _is_active(run)]
        if len(same) < 2:
            return made
        first, *others = sorted(same, key=order)
        for run in others:
            self.client.delete_run(run.info.run_id)
        return first

    def _mark(self) -> str:
        return f"{WRITING}{time.time_ns()}{self._writer}"

    def _when_written(self, run: Run) -> Run:
        """The run once no other home is writing it any more; one that stays as it is becomes ours to write."""
        until = time.monotonic() + PATIENCE
        while _is_written(run) and not run.data.tags[SIGNATURE].endswith(self._writer):
            if time.monotonic() > until:
                self.client.set_tag(run.info.run_id, SIGNATURE, self._mark())
                break
            time.sleep(0.2)
            run = self.client.get_run(run.info.run_id)
        return run

    def _find_file(self, experiment: str, file: str) -> Run | None:
        runs = self._search(f"tags.`plat.file` = '{file}'", [experiment])
        return min(runs, key=lambda run: run.info.lifecycle_stage != "active", default=None)

    def _deleted_files(self, experiment: str, file: str) -> set[str]:
        """The runs of this file that are in MLflow's bin."""
        runs = self._search(f"tags.`plat.file` = '{file}'", [experiment])
        return {str(run.info.run_id) for run in runs if not _is_active(run)}

    def _search(self, query: str, experiments: list[str] | None = None) -> list[Run]:
        """Every run that matches, deleted ones too, in all experiments unless some are named."""
        from mlflow.entities import ViewType

        runs: list[Any] = []
        with store_errors(self.uri):
            if experiments is None:
                known = self.client.search_experiments(view_type=ViewType.ALL, max_results=10000)
                experiments = [experiment.experiment_id for experiment in known]
            token = None
            while True:
                page = self.client.search_runs(experiments, query, ViewType.ALL, max_results=1000, page_token=token)
                runs += page
                token = page.token
                if not token:
                    break
        self._runs.update({run.info.run_id: run for run in runs})
        return runs

    def _set_tags(self, run: Run, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        changed = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
        for first in range(0, len(changed), 100):
            self.client.log_batch(run.info.run_id, tags=changed[first : first + 100])

    def _upload(self, run: str, files: Mapping[str, bytes]) -> None:
        if not files:
            return
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            self.client.log_artifacts(run, folder)


def _is_active(run: Run) -> bool:
    """Whether the run is not in MLflow's bin."""
    return bool(run.info.lifecycle_stage == "active")


def _is_written(run: Run) -> bool:
    """Whether some home is writing the run, or was when it was killed."""
    return str(run.data.tags.get(SIGNATURE, "")).startswith(WRITING)


def _known(run: Run) -> Known:
    tags = run.data.tags
    files = frozenset(key.removeprefix("plat.in.") for key in tags if key.startswith("plat.in."))
    deleted = run.info.lifecycle_stage != "active"
    return Known(run.info.run_id, tags.get(SIGNATURE), files, deleted, tags.get("plat.outcome"))
