"""Write any store that MLflow's client reaches (a server, PostgreSQL, MySQL) through that client.

The server assigns MLflow ids, so a run is found by its tag `plat.id`. The tag `plat.imported` is written last: after an
interrupted write the next import writes the run again. `ClientRuns` handles homes that write a run at the same time.
"""

from __future__ import annotations

import math
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
from plat.store.mlflow.client_runs import MOST_TRIES, ClientRuns, first_kept, is_active, is_archived, is_twin, known_of
from plat.store.mlflow.digest import digest_tags
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import NOTE, LoggedReport, experiment_note, stale_report_tags, without_report_note
from plat.store.mlflow.run_record import Point, RunRecord, as_stored
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import ARTIFACTS, artifact_root

if TYPE_CHECKING:
    from mlflow.entities import Run

FEW = 5  # up to this many runs are searched one by one; for more, all runs are read


class ClientStore:
    """A `backend.Backend` for stores behind MLflow's client."""

    def __init__(self, uri: str, home: Home) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        remote = uri.startswith(("http://", "https://", "databricks"))
        # a server has its own artifact store, a database has none
        self.root = None if remote else artifact_root(uri) or str(home.root / ARTIFACTS)
        self._runs = ClientRuns(uri, self.client, home.root)
        self._several: list[list[Run]] = []  # active runs of one plat id, the one to keep first

    def close(self) -> None:
        pass

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

    def write(self, record: RunRecord, known: Known | None) -> bool:
        def write_once(run: Run | None) -> bool:
            with store_errors(self.uri):
                if run is None and known is not None:
                    run = self._runs.get(known.mlflow_id)
                return self._write(record, run or self._create(record))

        return self._runs.write_kept(write_once, f"tags.`plat.id` = '{record.id}'")

    def _write(self, record: RunRecord, run: Run) -> bool:
        run = self._runs.wait_for_writer(run)
        run_id = run.info.run_id
        stored = self._stored(run)
        record = as_stored(record, {key for key, _ in stored.values})
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

    def _create(self, record: RunRecord) -> Run:
        """Create an MLflow run for a record; returns the run of another home if that created the same one first."""
        number = self._experiment(record.experiment)
        tags = {"plat.kind": "run", "plat.id": record.id, SIGNATURE: self._runs.writing_mark()}
        made = self.client.create_run(number, start_time=record.start, tags=tags, run_name=record.name)
        return self._runs.keep_one(made, f"tags.`plat.id` = '{record.id}'")

    def forget(self, known: Known) -> None:
        """Mark a run to be imported again. MLflow cannot delete values: the import restores missing values, tags and
        files, and changed values stay."""
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
            if status == "RUNNING":
                self.client.update_run(run.info.run_id, status=status)
            else:
                self.client.set_terminated(run.info.run_id, status, end)

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        with store_errors(self.uri):
            self._upload(run, {f"report/{name}": path.read_bytes() for name, path in report.files.items()})
            self._remove_others(run, "report", {f"report/{name}" for name in report.files})
            stored = self.client.get_run(run)
            self._log_points(run, _changed_points(stored.data.metrics, report.values, time))
            for key in stale_report_tags(stored.data.tags, report.tags):
                self.client.delete_tag(run, key)
            self._set_tags(stored, report.tags)
            self._runs.forget(run)
        self._describe_experiment(stored.info.experiment_id)

    def _describe_experiment(self, number: str) -> None:
        """Write the description of an MLflow experiment from the reports of its files.

        Another home may log a report at the same time: repeat until a read returns what was written, at most MOST_TRIES
        times. Then stop without an error. `number` is the id of the MLflow experiment."""
        for _ in range(MOST_TRIES):
            own = self._runs.search("tags.`plat.kind` = 'experiment'", [number])
            with store_errors(self.uri):
                present = self.client.get_experiment(number).tags.get(NOTE, "")
                note = experiment_note([run.data.tags for run in own if is_active(run)], present)
                if note == present:
                    return
                self.client.set_experiment_tag(number, NOTE, note)

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
        from mlflow.exceptions import MlflowException

        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            place = None if self.root is None else f"{self.root}/{sha256(name.encode()).hexdigest()[:8]}"
            try:
                return str(self.client.create_experiment(name, place))
            except MlflowException:
                experiment = self.client.get_experiment_by_name(name)  # another home may have just created it
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise DeletedExperiment(name)
        return str(experiment.experiment_id)

    def _log_points(self, run_id: str, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        for first in range(0, len(points), 1000):
            batch = points[first : first + 1000]
            metrics = [Metric(point.key, point.value, point.time, point.step) for point in batch]
            self.client.log_batch(run_id, metrics=metrics)

    def _log_params(self, run: Run, params: Mapping[str, str]) -> None:
        """Log the params that the run does not have; MLflow refuses to log one twice."""
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


def _changed_points(stored: Mapping[str, float], values: Mapping[str, float], time: int) -> list[Point]:
    """Return the points to log so that the newest stored values equal `values`; `time` is in milliseconds.

    A metric that the report no longer has becomes NaN: MLflow cannot delete a metric."""
    wanted = dict.fromkeys(stored, math.nan) | dict(values)
    return [
        Point(key, 0, float(value), time)
        for key, value in wanted.items()
        if key not in stored or sql_value(stored[key]) != sql_value(float(value))
    ]
