"""Any store MLflow's own client can reach (a server, PostgreSQL, MySQL), written through that client.

The server gives the MLflow ids here, so a run is found again by its tag `plat.id`. Its history is compared before
anything is added. The tag `plat.imported` is written last: without it the next import looks at the run again.

Other homes may write to the same server at the same moment, and may create the same run: `ClientRuns` settles that.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from plat.store.home import Home
from plat.store.mlflow.backend import (
    SIGNATURE,
    TWIN,
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
from plat.store.mlflow.client_reports import changed_points, describe_experiment
from plat.store.mlflow.client_runs import ClientRuns, first_kept, is_active, is_archived, is_twin, known_of
from plat.store.mlflow.digest import digest_tags
from plat.store.mlflow.record import Point, RunRecord
from plat.store.mlflow.report_record import LoggedReport, stale_report_tags, without_report_note
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run

FEW = 5  # so many runs are asked for one by one instead of reading them all


class ClientStore:
    """See `backend.Backend`."""

    def __init__(self, uri: str, home: Home) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        remote = uri.startswith(("http://", "https://", "databricks"))
        # a server has a place for artifacts of its own, a database has none
        self.root = None if remote else artifact_root(uri) or str(home.root / "mlartifacts")
        self._runs = ClientRuns(uri, self.client, home.root)
        self._several: list[list[Run]] = []  # active runs of one plat id, the one to keep first

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
        by_id: dict[str, list[Run]] = {}
        for run in (run for query in filters for run in self._runs.search(query)):
            plat_id = run.data.tags.get("plat.id")
            if plat_id and not is_archived(run) and not is_twin(run):
                by_id.setdefault(plat_id, []).append(run)
        for runs in by_id.values():
            runs.sort(key=lambda run: (not is_active(run), first_kept(run)))
        self._several = [runs for runs in by_id.values() if len(runs) > 1 and is_active(runs[1])]
        return {plat_id: known_of(runs[0]) for plat_id, runs in by_id.items()}

    def drop_twins(self) -> None:
        with store_errors(self.uri):
            for first, *others in self._several:
                self._runs.drop((run for run in others if is_active(run)), first)
        self._several = []

    def twins(self) -> list[str]:
        runs = self._runs.search(f"tags.`{TWIN}` LIKE '%'")
        return sorted(run.info.run_id for run in runs if is_twin(run))

    def stored(self, known: Known) -> Stored:
        with store_errors(self.uri):
            return self._stored(self._runs.get(known.mlflow_id))

    def _stored(self, run: Run) -> Stored:
        histories = [self.client.get_metric_history(run.info.run_id, key) for key in run.data.metrics]
        values = {(point.key, point.step): sql_value(point.value) for history in histories for point in history}
        newest = {metric.key: (metric.step, sql_value(metric.value)) for metric in run.data.to_proto().metrics}
        return Stored(values, run.data.tags, run.data.params, run.info.artifact_uri, run.info.status, newest)

    def file_run(self, experiment: str, file: FileInfo) -> str:
        with store_errors(self.uri):
            number = self._experiment(experiment)
        query = f"tags.`plat.file` = '{file.name}'"
        return self._runs.write_kept(lambda run: self._write_file_run(run, number, file), query, [number])

    def _write_file_run(self, run: Run | None, number: str, file: FileInfo) -> str:
        with store_errors(self.uri):
            run = run or self._runs.of_file(number, file.name)
            if run is None:
                tags = {"mlflow.runName": file.name, **file.tags()}
                made = self.client.create_run(number, tags=tags, run_name=file.name)
                self.client.update_run(made.info.run_id, status="FINISHED")
                run = self._runs.keep_one(made, f"tags.`plat.file` = '{file.name}'", [number])
            if not is_active(run):
                raise Deleted(file.name)
            self._set_tags(run, without_report_note(file.tags(), run.data.tags))
            return str(run.info.run_id)

    def write(self, record: RunRecord, known: Known | None, parent: str | None) -> bool:
        query = f"tags.`plat.id` = '{record.id}'"
        return self._runs.write_kept(lambda run: self._write_or_create(record, run, known, parent), query)

    def _write_or_create(self, record: RunRecord, run: Run | None, known: Known | None, parent: str | None) -> bool:
        with store_errors(self.uri):
            if run is None and known is not None:
                run = self._runs.get(known.mlflow_id)
            return self._write(record, run or self._create(record, parent))

    def _write(self, record: RunRecord, run: Run) -> bool:
        run = self._runs.wait_for_writer(run)
        run_id = run.info.run_id
        stored = self._stored(run)
        if conflict(record, stored):
            return False
        self._log_points(run_id, [point for point in record.points if (point.key, point.step) not in stored.values])
        self._log_params(run, record.params)
        self._upload(run_id, record.artifacts)
        tags = {**record.tags, **digest_tags(record)}
        for key in stale_tags(run.data.tags, tags):
            self.client.delete_tag(run_id, key)
        self._set_tags(run, tags)
        if record.status == "RUNNING":
            self.client.update_run(run_id, status="RUNNING")
        else:
            self.client.set_terminated(run_id, record.status, record.end)
        self._set_tags(run, {SIGNATURE: record.signature})
        self._runs.forget(run_id)
        return True

    def _create(self, record: RunRecord, parent: str | None) -> Run:
        """A new MLflow run for a record, or the one that another home has created at the same moment."""
        number = self._experiment(record.experiment)
        tags = {"plat.kind": "run", "plat.id": record.id, SIGNATURE: self._runs.writing_mark()}
        tags |= {"mlflow.parentRunId": parent} if parent else {}
        made = self.client.create_run(number, start_time=record.start, tags=tags, run_name=record.name)
        return self._runs.keep_one(made, f"tags.`plat.id` = '{record.id}'")

    def forget(self, known: Known) -> None:
        """MLflow cannot take back a value: only what is missing there, tags and files are stored again."""
        with store_errors(self.uri):
            self.client.delete_tag(known.mlflow_id, SIGNATURE)
        self._runs.forget(known.mlflow_id)

    def settle(self, experiment: str, file: str) -> None:
        with store_errors(self.uri):
            number = self._experiment(experiment)
        query = f"tags.`plat.file` = '{file}'"
        self._runs.write_kept(lambda _: self._settle(number, file), query, [number])

    def _settle(self, number: str, file: str) -> None:
        with store_errors(self.uri):
            run = self._runs.of_file(number, file)
            runs = self._runs.search(f"tags.`plat.in.{file}` = '1'", [number])
            active = [member for member in runs if is_active(member)]
            status, _, end = together((run.info.status, run.info.start_time, run.info.end_time) for run in active)
            if run is None or not is_active(run):
                return
            deleted = self._runs.deleted_of_file(number, file)
            for member in active:  # their parent may have been the later of two that were created at once
                if member.data.tags.get("mlflow.parentRunId") in deleted:
                    self.client.set_tag(member.info.run_id, "mlflow.parentRunId", run.info.run_id)
            if status == "RUNNING":
                self.client.update_run(run.info.run_id, status=status)
            else:
                self.client.set_terminated(run.info.run_id, status, end)

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        with store_errors(self.uri):
            self._upload(run, {f"report/{name}": path.read_bytes() for name, path in report.files.items()})
            self._remove_others(run, "report", {f"report/{name}" for name in report.files})
            stored = self.client.get_run(run)
            self._log_points(run, changed_points(stored.data.metrics, report.values, time))
            for key in stale_report_tags(stored.data.tags, report.tags):
                self.client.delete_tag(run, key)
            self._set_tags(stored, report.tags)
            self._runs.forget(run)
        describe_experiment(self.uri, self.client, self._runs, stored.info.experiment_id)

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

    def _log_points(self, run_id: str, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        for first in range(0, len(points), 1000):
            batch = points[first : first + 1000]
            metrics = [Metric(point.key, point.value, point.time, point.step) for point in batch]
            self.client.log_batch(run_id, metrics=metrics)

    def _log_params(self, run: Run, params: Mapping[str, str]) -> None:
        """Log those params that the run does not have; MLflow refuses to log one twice."""
        from mlflow.entities import Param

        missing = [Param(key, value) for key, value in params.items() if key not in run.data.params]
        for first in range(0, len(missing), 100):
            self.client.log_batch(run.info.run_id, params=missing[first : first + 100])

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
