"""Read the results of an experiment from MLflow as tidy frames, without touching run directories.

Deleted runs are left out, the order of rows does not depend on the order of imports, and both readers (direct SQL,
MLflow's client) give equal frames. A run that does not match its digest was changed in the store: it is named, with the
outcome "damaged" and no values; `plat.store.mlflow.verify` imports it again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.backend import Deleted, RawRun, Series
from plat.store.mlflow.connect import open_backend, open_reader
from plat.store.mlflow.digest import TAG, Digest, is_digest
from plat.store.mlflow.importer import file_info, import_lock
from plat.store.mlflow.report_record import NOTE, PICTURE, LoggedReport, ReportRecord, report_tags
from plat.store.mlflow.run_record import DAMAGED, TABLES, experiment_name
from plat.store.mlflow.spelling import TAG_LENGTH, clean_key, cut, metric_name
from plat.store.mlflow.uri import shown_uri

if TYPE_CHECKING:
    from pandas import DataFrame

    from plat.spec.expansion.experiment import Experiment

RUN_COLUMNS = ("run_id", "name", "mlflow_id", "outcome", "attempt")


@dataclass
class Frames:
    """Tidy frames of runs; `run_id` is the plat id.

    runs     one row per run, sorted by run_id: run_id, name, mlflow_id, outcome (None until it has ended), attempt,
             axis.<axis> (typed as in the experiment file), param.<dotted key> and tag.<tag> (text); None if absent
    metrics  run_id, key, step (int64), value (float64), sorted by run_id, key, step
    tables   run_id, name, step, data (as logged), sorted by run_id, name, step
    changed  run_id -> difference from the imported run; such a run has no rows in metrics and tables
    deleted  ids of the parsed file's runs in MLflow's bin, which have no rows; empty for an experiment by name
    """

    runs: DataFrame
    metrics: DataFrame
    tables: DataFrame
    changed: dict[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()


class Store:
    """A store to read results from, and to log reports into under the import lock of `home`.

    By default, `home` is `Home.find()` and `uri` is `home.store_uri()`.
    """

    def __init__(self, uri: str | None = None, home: Home | None = None) -> None:
        self.home = home or Home.find()
        self.uri = uri or self.home.store_uri()

    def load(self, experiment: Experiment | str, *, params: bool = True) -> Frames:
        """Return the frames of the imported runs of an experiment.

        A parsed file selects the runs that it defines now, overrides included, with its axes; results of an earlier
        version or another scale never mix in. A name selects all runs that a file of this name ever asked for, with
        the axes of the file that asked first; for an unknown name the frames have no rows. Raises StoreError if the
        store or a stored run cannot be read.

        params  include the columns param.<dotted key>, most of `Frames.runs`; without them this is faster
        """
        reader = open_reader(self.uri)
        try:
            name = experiment if isinstance(experiment, str) else experiment.name
            runs = sorted(reader.runs(clean_key(name), params), key=lambda run: run.mlflow_id)
            by_id = {run.tags["plat.id"]: run for run in runs if "plat.id" in run.tags}
            deleted: frozenset[str] = frozenset()
            if isinstance(experiment, str):
                axes = {plat_id: _axes(run) for plat_id, run in by_id.items()}
            else:
                axes = {run.id: run.axes for run in experiment.runs if run.id in by_id}
                absent = {run.id for run in experiment.runs} - by_id.keys()
                deleted = frozenset(reader.deleted(clean_key(name)) & absent) if absent else deleted
            ordered = [(plat_id, by_id[plat_id]) for plat_id in sorted(axes)]
            changed: dict[str, str] = {}
            series: list[tuple[str, Series]] = []
            logged: list[tuple[str, list[tuple[str, int, Any]]]] = []
            for plat_id, run in ordered:
                of_run = reader.series(run)
                data = reader.artifact(run, TABLES)
                if problem := _problem(run, of_run, data):
                    changed[plat_id] = problem
                    continue
                series.append((plat_id, of_run))
                logged.append((plat_id, _tables(run, data)))
            runs_frame = _runs_frame(ordered, axes, changed)
            return Frames(runs_frame, _metrics_frame(series), _tables_frame(logged), changed, deleted)
        except (ValueError, TypeError) as error:  # for example text in place of a number
            raise StoreError(
                f"the store holds something that plat did not write: {error}",
                where=shown_uri(self.uri),
                fix="`plat doctor --fix` restores what differs from the run directories",
            ) from error
        finally:
            reader.close()

    def log_report(self, experiment: Experiment, files: Mapping[str, Path], record: ReportRecord | None = None) -> str:
        """Log a report into the file's MLflow run and return the run's MLflow id.

        Replaces the earlier report: files under `report/<name>`, metrics, tags and descriptions. A report under
        overrides has a separate run. Raises StoreError if the user deleted the run or its MLflow experiment,
        and HomeError if the home, which is created if absent, cannot be written."""
        record = record or ReportRecord()
        place = experiment_name(experiment.paper, clean_key(experiment.name), experiment.scale)
        self.home.create()
        name = clean_key(experiment.name) + (f"@{experiment.mark}" if experiment.mark else "")
        info = replace(file_info(experiment), name=name)
        values = {clean_key(key): float(value) for key, value in record.values.items()}
        claims = {clean_key(key): cut(value, TAG_LENGTH) for key, value in record.tags.items()}
        about = info.tags().get(NOTE, "")
        with import_lock(self.home), closing(open_backend(self.home, self.uri)) as backend:
            try:
                run = backend.file_run(place, info)
                tags = report_tags(replace(record, tags=claims), about, run if PICTURE in files else "")
                backend.replace_report(run, LoggedReport(files, values, tags), int(time.time() * 1000))
                return run
            except Deleted as error:
                raise StoreError(
                    f"the MLflow run of {experiment.name} was deleted, so the report cannot be logged into it",
                    where=f"{shown_uri(self.uri)}, experiment {place}",
                    fix="restore it in MLflow: `plat ui` shows what was deleted there",
                ) from error


def _problem(run: RawRun, series: Series, data: bytes | None) -> str:
    """Return in one line how a run differs from its digest, "" if it does not or has no digest."""
    if TAG not in run.tags:
        return ""
    digest = Digest(run.tags)
    return digest.problem_of_tags(run.tags) or digest.problem_of_metrics(series) or digest.problem_of_tables(data)


def _runs_frame(
    runs: list[tuple[str, RawRun]], axes: Mapping[str, Mapping[str, Any]], changed: Collection[str]
) -> DataFrame:
    import pandas as pd

    rows: list[dict[str, Any]] = []
    for plat_id, run in runs:
        tags = run.tags
        row = {
            "run_id": plat_id,
            "name": tags.get("plat.name", run.name),
            "mlflow_id": run.mlflow_id,
            "outcome": DAMAGED if plat_id in changed else tags.get("plat.outcome"),
            "attempt": int(tags.get("plat.attempt", 0)),
        }
        row |= {f"axis.{axis}": value for axis, value in axes[plat_id].items()}
        row |= {f"param.{key}": value for key, value in run.params.items()}
        row |= {f"tag.{key}": value for key, value in tags.items()}
        rows.append(row)
    rest = {key for row in rows for key in row} - set(RUN_COLUMNS)
    order = {"axis": 0, "para": 1, "tag.": 2}
    rest = {key for key in rest if not is_digest(key.removeprefix("tag."))}
    columns = [*RUN_COLUMNS, *sorted(rest, key=lambda key: (order[key[:4]], key))]
    data = {column: pd.Series([row.get(column) for row in rows], dtype=object) for column in columns}
    data["attempt"] = data["attempt"].astype("int64")
    for column in columns:
        if column.startswith("axis."):
            data[column] = data[column].infer_objects()
    return pd.DataFrame(data)


def _metrics_frame(series: list[tuple[str, Series]]) -> DataFrame:
    import numpy as np
    import pandas as pd

    counts = [count for _, of_run in series for count in of_run.counts]
    keys = np.array([metric_name(key) for _, of_run in series for key in of_run.keys], dtype=object)
    ids = np.array([plat_id for plat_id, of_run in series for _ in of_run.keys], dtype=object)
    frame = pd.DataFrame(
        {
            "run_id": np.repeat(ids, counts),
            "key": np.repeat(keys, counts),
            "step": np.concatenate([np.zeros(0, np.int64), *(of_run.steps for _, of_run in series)]),
            "value": np.concatenate([np.zeros(0), *(of_run.values for _, of_run in series)]),
        },
        copy=False,
    )
    is_sorted = all(list(of_run.keys) == [metric_name(key) for key in of_run.keys] for _, of_run in series)
    return frame if is_sorted else frame.sort_values(["run_id", "key"], kind="stable", ignore_index=True)


def _axes(run: RawRun) -> dict[str, Any]:
    """Return the stored axis values of a run; raises StoreError if they are not a mapping."""
    try:
        axes = json.loads(run.tags.get("plat.axes", "{}"))
    except ValueError as error:
        raise _damaged(run, "the tag plat.axes") from error
    if not isinstance(axes, dict):
        raise _damaged(run, "the tag plat.axes")
    return axes


def _tables(run: RawRun, data: bytes | None) -> list[tuple[str, int, Any]]:
    """Return (name, step, data) of every table of a run, sorted; raises StoreError if a line cannot be read."""
    rows = []
    for number, line in enumerate((data or b"").splitlines(), start=1):
        try:
            row = json.loads(line)
            rows.append((str(row["name"]), int(row["step"]), row["data"]))
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(run, f"line {number} of its {TABLES}") from error
    return sorted(rows, key=lambda row: row[:2])


def _damaged(run: RawRun, what: str) -> StoreError:
    return StoreError(
        f"{what} cannot be read, in the stored run {run.tags.get('plat.name', run.name)}",
        where=f"{run.artifacts}/{TABLES}" if TABLES in what else f"MLflow run {run.mlflow_id}",
        fix="`plat doctor --deep --fix` restores it from the run's directory",
    )


def _tables_frame(tables: list[tuple[str, list[tuple[str, int, Any]]]]) -> DataFrame:
    import pandas as pd

    rows = [(plat_id, *row) for plat_id, own in tables for row in own]
    columns = ("run_id", "name", "step", "data")
    data = {column: pd.Series([row[i] for row in rows], dtype=object) for i, column in enumerate(columns)}
    return pd.DataFrame(data | {"step": data["step"].astype("int64")})
