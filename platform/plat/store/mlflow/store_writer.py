"""Write runs and reports into a store through MLflow's client.

A plat run id is one MLflow run. A write may be interrupted at any moment and repeated: the tags `plat.measured` and
`plat.imported` are written last, and a run without them is written again. Runs that the user deleted in MLflow stay
deleted. A SQLite file has one importer at a time; of a server, `ClientRuns` handles homes that write a run at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from plat.store.home import Home
from plat.store.measured import ARTIFACT
from plat.store.mlflow.artifacts import log_files, remove_other_files
from plat.store.mlflow.client_runs import MOST_TRIES, ClientRuns
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import NOTE, LoggedReport, experiment_note, stale_report_tags, without_report_note
from plat.store.mlflow.run_record import Point, RunRecord
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.stored_runs import (
    FILES_RUNNING,
    MEASURED,
    SIGNATURE,
    Deleted,
    DeletedExperiment,
    FileInfo,
    StoredList,
    StoredRun,
    as_stored,
    by_id,
    first_kept,
    is_active,
    queries_for,
    running_files,
    together,
)
from plat.store.mlflow.uri import ARTIFACTS, artifact_root, sqlite_path

if TYPE_CHECKING:
    from mlflow.entities import Run

MOST_PARAMS = 100  # params, or tags, of a batch; MLflow's limit
OLDER = "plat.digest"  # tag of a run that plat 0.4 has stored
MOST_POINTS = 1000  # entries of a batch


class StoreWriter:
    """A store open for writing. Every method may raise StoreError; callers hold the import lock, and the store's."""

    def __init__(self, uri: str, home: Home) -> None:
        self.uri = uri
        self.client = mlflow_client(uri)
        self._home = home
        remote = uri.startswith(("http://", "https://", "databricks"))
        # a server has its own artifact store, a database has none
        self._root = None if remote else artifact_root(uri) or str(home.root / ARTIFACTS)
        self._runs = ClientRuns(uri, self.client, home.root)
        self._list: StoredList | None = None  # of a SQLite store
        self._several: list[list[Run]] = []  # active runs of one plat id, the one to keep first
        self._numbers: dict[str, str] = {}  # MLflow experiment -> its id
        if sqlite_path(uri) is not None:
            with store_errors(uri):
                self.client.search_experiments(max_results=1)  # creates the tables of a new file
            self._list = StoredList(home, uri)
            self._list.forget()

    def close(self) -> None:
        """Keep the list of the runs for later readers."""
        if self._list is not None:
            self._list.save()

    def known(self, ids: Iterable[str] | None = None) -> dict[str, StoredRun]:
        """Return the runs by plat id, including those that the user deleted. Runs not in `ids` may be left out."""
        if self._list is not None:
            return self._list.runs
        found = [run for query in queries_for(ids) for run in self._runs.search(query)]
        active: dict[str, list[Run]] = {}
        for run in sorted(filter(is_active, found), key=first_kept):
            active.setdefault(run.data.tags.get("plat.id", ""), []).append(run)
        self._several = [runs for plat_id, runs in active.items() if plat_id and len(runs) > 1]
        return by_id(found)

    def drop_twins(self) -> None:
        """Put duplicates of a run into MLflow's bin, and leave one active. Killed importers leave them on servers.

        Only the duplicates that the last call of `known` has found are dropped."""
        with store_errors(self.uri):
            for first, *others in self._several:
                self._runs.drop(others, first)
        self._several = []

    # -- runs ---------------------------------------------------------------------------------------------------------

    def write(self, record: RunRecord, known: StoredRun | None, *, curves: bool = True) -> StoredRun | None:
        """Write one run: its artifact, then its mirror in MLflow's tables, and the tags that make it whole last.

        Returns None, or what another home has written meanwhile; then nothing is written.

        curves  mirror the steps of its metrics, not only their last values

        Raises DeletedExperiment if a new run's MLflow experiment is in MLflow's bin.
        """

        def write_once(run: Run | None) -> StoredRun | None:
            with store_errors(self.uri):
                if run is None and known is not None:
                    run = self._runs.get(known.mlflow_id)
                is_new = run is None
                run = run or self._create(record)
                if self._list is None:
                    run = self._runs.wait_for_writer(run)
                    written = run.data.tags.get(MEASURED)
                    if written is not None and written != (known and known.measured):
                        return as_stored(run)
                self._write(record, run, is_new, curves)
                return None

        if self._list is not None:
            return write_once(None)
        return self._runs.write_kept(write_once, f"tags.`plat.id` = '{record.id}'")

    def _write(self, record: RunRecord, run: Run, is_new: bool, curves: bool) -> None:
        from mlflow.entities import Metric, Param, RunTag

        run_id, stored = run.info.run_id, run.data
        last = {SIGNATURE: record.signature, MEASURED: record.sha256}
        if not is_new and stored.tags.get(MEASURED) not in (None, record.sha256):
            self.client.delete_tag(run_id, MEASURED)  # so that a kill leaves no tag of another file
        files = {**record.files_to_log, ARTIFACT: record.measured}
        log_files(self.client, self.uri, run_id, run.info.artifact_uri, files)
        params = [Param(key, value) for key, value in record.params.items() if key not in stored.params]
        points = [] if OLDER in stored.tags else record.mirror(curves)  # plat 0.4 has mirrored whole curves
        metrics = [Metric(point.key, point.value, point.time, point.step) for point in points]
        tags = [RunTag(key, value) for key, value in record.tags.items() if stored.tags.get(key) != value]
        while len(params) > MOST_PARAMS or len(tags) + len(last) > MOST_PARAMS:
            self.client.log_batch(run_id, params=params[:MOST_PARAMS], tags=tags[:MOST_PARAMS])
            params, tags = params[MOST_PARAMS:], tags[MOST_PARAMS:]
        room = MOST_POINTS - len(params) - len(tags) - len(last)
        while len(metrics) > room:
            self.client.log_batch(run_id, metrics=metrics[:MOST_POINTS])
            metrics = metrics[MOST_POINTS:]
        for key in stale_tags(stored.tags, record.tags):
            self.client.delete_tag(run_id, key)
        if record.status == "RUNNING":
            if not is_new:
                self.client.update_run(run_id, status="RUNNING")
        else:
            self.client.set_terminated(run_id, record.status, record.end)
        if not is_new and stored.tags.get("plat.id") != record.id:  # later, the name is the user's to change
            tags.append(RunTag("mlflow.runName", record.name))
        # MLflow writes params, metrics and tags of a batch in this order
        self.client.log_batch(run_id, metrics, params, [*tags, *(RunTag(key, value) for key, value in last.items())])
        self._runs.forget(run_id)
        self._note(record, run_id, run.info.artifact_uri, last, stored.tags)

    def tag(self, known: StoredRun, tags: Mapping[str, str]) -> None:
        """Set tags of a run, and leave all else."""
        from mlflow.entities import RunTag

        with store_errors(self.uri):
            items = [RunTag(key, value) for key, value in tags.items()]
            for first in range(0, len(items), MOST_PARAMS):
                self.client.log_batch(known.mlflow_id, tags=items[first : first + MOST_PARAMS])
        self._runs.forget(known.mlflow_id)
        if self._list is not None:
            files = {key.removeprefix("plat.in.") for key in tags if key.startswith("plat.in.")}
            self._list.runs[known.id] = known._replace(
                files=tuple(sorted({*known.files, *files})),
                signature=tags.get(SIGNATURE, known.signature),
                measured=tags.get(MEASURED, known.measured),
            )

    def _note(
        self, record: RunRecord, run_id: str, folder: str, last: Mapping[str, str], before: Mapping[str, str]
    ) -> None:
        """Bring the list of the runs up to date."""
        if self._list is not None:
            asked = {key.removeprefix("plat.in.") for key in (*record.tags, *before) if key.startswith("plat.in.")}
            facts = (last[MEASURED], last[SIGNATURE], record.tags.get("plat.outcome"))
            self._list.runs[record.id] = StoredRun(record.id, run_id, folder, *facts, tuple(sorted(asked)))

    def _create(self, record: RunRecord) -> Run:
        """Create an MLflow run for a record; returns the run of another home if that created the same one first."""
        number = self._experiment(record.experiment)
        if self._list is not None:
            return self.client.create_run(number, record.start, tags=record.tags, run_name=record.name)
        tags = {"plat.kind": "run", "plat.id": record.id, SIGNATURE: self._runs.writing_mark()}
        made = self.client.create_run(number, start_time=record.start, tags=tags, run_name=record.name)
        return self._runs.keep_one(made, f"tags.`plat.id` = '{record.id}'")

    def _experiment(self, name: str) -> str:
        """Return the id of an MLflow experiment, which is created if absent."""
        from mlflow.exceptions import MlflowException

        if name in self._numbers:
            return self._numbers[name]
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            place = None if self._root is None else f"{self._root}/{sha256(name.encode()).hexdigest()[:8]}"
            try:
                self._numbers[name] = str(self.client.create_experiment(name, place))
                return self._numbers[name]
            except MlflowException:
                experiment = self.client.get_experiment_by_name(name)  # another home may have just created it
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise DeletedExperiment(name)
        self._numbers[name] = str(experiment.experiment_id)
        return self._numbers[name]

    # -- files and their reports --------------------------------------------------------------------------------------

    def file_run(self, experiment: str, file: FileInfo) -> str:
        """Create or update the file's run in this MLflow experiment and return its MLflow id; may raise Deleted."""
        number = self.experiment(experiment)
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

    def running_files(self) -> set[tuple[str, str]]:
        """Return (id of the MLflow experiment, file) of the files' runs that are RUNNING."""
        return running_files(self._runs.search(FILES_RUNNING)) if self._list is None else set(self._list.running)

    def experiment(self, name: str) -> str:
        """Return the id of an MLflow experiment, which is created if absent; may raise Deleted."""
        with store_errors(self.uri):
            return self._experiment(name)

    def settle(self, number: str, file: str) -> None:
        """Set status and times of a file's run, in the MLflow experiment `number`, from those of the file's runs."""
        self._runs.write_kept(lambda _: self._settle(number, file), f"tags.`plat.file` = '{file}'", [number])

    def _settle(self, number: str, file: str) -> None:
        with store_errors(self.uri):
            run = self._runs.of_file(number, file)
            if run is None or not is_active(run):
                return
            runs = self._runs.search(f"tags.`plat.in.{file}` = '1'", [number])
            active = [member for member in runs if is_active(member)]
            status, _, end = together((run.info.status, run.info.start_time, run.info.end_time) for run in active)
            if self._list is not None:
                (self._list.running.add if status == "RUNNING" else self._list.running.discard)((number, file))
            if (status, end) == (run.info.status, run.info.end_time):
                return
            if status == "RUNNING":
                self.client.update_run(run.info.run_id, status=status)
            else:
                self.client.set_terminated(run.info.run_id, status, end)
            self._runs.forget(run.info.run_id)

    def remember_report(self, name: str, digest: str, run: str) -> None:
        """Remember which report was logged last, in which run, for as long as nobody else changes the store."""
        if self._list is not None:
            self._list.reports[name] = [digest, run]

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        """Replace the report of a file's run (files under `report/`, metrics, tags), then rewrite the description of
        its MLflow experiment. `time` is the time of the metrics in milliseconds since 1970."""
        with store_errors(self.uri):
            stored = self.client.get_run(run)
            files = {f"report/{name}": path.read_bytes() for name, path in report.files.items()}
            if files:
                log_files(self.client, self.uri, run, stored.info.artifact_uri, files)
            remove_other_files(self.client, self.uri, stored, "report", files)
            self._log_points(run, self._changed_points(stored, report.values, time))
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

    def _log_points(self, run_id: str, points: Sequence[Point]) -> None:
        from mlflow.entities import Metric

        for first in range(0, len(points), MOST_POINTS):
            batch = points[first : first + MOST_POINTS]
            metrics = [Metric(point.key, point.value, point.time, point.step) for point in batch]
            self.client.log_batch(run_id, metrics=metrics)

    def _changed_points(self, run: Run, values: Mapping[tuple[str, int], float], time: int) -> list[Point]:
        """Return the points to log so that the newest stored values equal `values`; `time` is in milliseconds.

        A value that the report no longer has becomes NaN: MLflow cannot delete a metric."""
        last = {(key, 0): _stored_value(value) for key, value in run.data.metrics.items()}
        wanted = {at: _stored_value(float(value)) for at, value in values.items()}
        stepwise = {key for key, step in values if step}
        kept = {at for at, value in last.items() if at in wanted and at[0] not in stepwise and wanted[at] == value}
        stored = {at: run.data.metrics[at[0]] for at in kept}
        for key, _ in sorted(last.keys() - kept):
            history = self.client.get_metric_history(run.info.run_id, key)
            stored |= {(key, metric.step): metric.value for metric in sorted(history, key=lambda one: one.timestamp)}
        return [
            Point(key, step, float(value), time)
            for (key, step), value in (dict.fromkeys(stored, math.nan) | dict(values)).items()
            if (key, step) not in stored or _stored_value(stored[key, step]) != _stored_value(float(value))
        ]

    def _set_tags(self, run: Run, tags: Mapping[str, str]) -> None:
        from mlflow.entities import RunTag

        changed = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
        for first in range(0, len(changed), MOST_PARAMS):
            self.client.log_batch(run.info.run_id, tags=changed[first : first + MOST_PARAMS])
        if changed:
            self._runs.forget(run.info.run_id)


def stale_tags(stored: Iterable[str], wanted: Mapping[str, str]) -> list[str]:
    """Return the names of plat's stored tags that are not wanted; never users' tags or `plat.in.*`."""
    kept = ("plat.in.", SIGNATURE, MEASURED)
    return [key for key in stored if key.startswith("plat.") and key not in wanted and not key.startswith(kept)]


def _stored_value(value: float) -> float | None:
    """Return a value as MLflow's SQL stores keep it: infinities as the largest number, None for NaN (a flag there)."""
    largest = 1.7976931348623157e308
    return None if value != value else max(-largest, min(largest, value))
