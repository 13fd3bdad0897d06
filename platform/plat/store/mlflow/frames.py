"""Read the results of an experiment from the artifacts in a store as tidy frames.

Run directories are not read. Deleted runs are left out, and the order of rows does not depend on the order of imports.
A run whose artifact is not the one that was logged is named, with the outcome "damaged" and no values.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.characters import masked
from plat.errors import StoreError
from plat.plain_files import parse_yaml
from plat.store.home import Home
from plat.store.measured import Measured, Series, sha256_of
from plat.store.mlflow.artifacts import read_artifacts
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.importer import file_info, import_lock
from plat.store.mlflow.report_record import NOTE, PICTURE, LoggedReport, ReportRecord, report_tags
from plat.store.mlflow.run_record import DAMAGED, experiment_name
from plat.store.mlflow.run_tags import PARAM_LENGTH, TAG_LENGTH, clean_key, cut, flatten, text
from plat.store.mlflow.sqlite_file import check_file, has_content
from plat.store.mlflow.stored_runs import Deleted, StoredList, StoredRun, stored_runs
from plat.store.mlflow.uri import shown_uri, sqlite_path

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
    older    ids of runs without an artifact, which plat 0.4 has stored; they have no rows
    """

    runs: DataFrame
    metrics: DataFrame
    tables: DataFrame
    changed: dict[str, str] = field(default_factory=dict)
    deleted: frozenset[str] = frozenset()
    older: frozenset[str] = frozenset()


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
        path = sqlite_path(self.uri)
        if path is not None:
            check_file(path)
        name = experiment if isinstance(experiment, str) else experiment.name
        asked = clean_key(name)
        listed = {run.id: run for run in stored_runs(self.home, self.uri, file=asked).values() if asked in run.files}
        older = frozenset(run.id for run in listed.values() if run.outcome and not run.measured and not run.deleted)
        runs = {run.id: run for run in listed.values() if run.measured and not run.deleted}
        names: dict[str, str] = {}
        axes: dict[str, Mapping[str, Any]] = {}
        deleted: frozenset[str] = frozenset()
        if not isinstance(experiment, str):
            axes = {run.id: run.axes for run in experiment.runs if run.id in runs}
            names = {run.id: run.name for run in experiment.runs}
            deleted = frozenset(run.id for run in experiment.runs if run.id in listed and listed[run.id].deleted)
            older &= names.keys()
            runs = {plat_id: runs[plat_id] for plat_id in axes}
        ordered = [runs[plat_id] for plat_id in sorted(runs)]
        read = read_artifacts(self.home, self.uri, ordered)
        whole = {plat_id: found for plat_id, found in read.items() if isinstance(found, Measured)}
        changed = {plat_id: str(found) for plat_id, found in read.items() if not isinstance(found, Measured)}
        if isinstance(experiment, str):
            axes = {plat_id: found.facts["axes"] for plat_id, found in whole.items()}
        rows = [_row(run, whole.get(run.id), names, axes.get(run.id, {}), params) for run in ordered]
        series = [(run.id, whole[run.id].series()) for run in ordered if run.id in whole]
        logged = [(run.id, whole[run.id].logged_tables()) for run in ordered if run.id in whole]
        return Frames(_runs_frame(rows), _metrics_frame(series), _tables_frame(logged), changed, deleted, older)

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
        values = {(clean_key(key), step): float(value) for (key, step), value in record.values.items()}
        claims = {clean_key(key): cut(value, TAG_LENGTH) for key, value in record.tags.items()}
        about = info.tags().get(NOTE, "")
        hashes = {name: sha256_of(path.read_bytes()) for name, path in files.items()}
        content = (place, info.tags(), sorted(hashes.items()), sorted(values.items()), claims, record.summary)
        digest = sha256_of(repr(content).encode(errors="replace"))
        path = sqlite_path(self.uri)
        if path is not None and has_content(path):
            logged = StoredList(self.home, self.uri).reports.get(experiment.report_name, ["", ""])
            if logged[0] == digest:
                return logged[1]
        with import_lock(self.home), open_writer(self.home, self.uri) as writer:
            try:
                run = writer.file_run(place, info)
                tags = report_tags(replace(record, tags=claims), about, run if PICTURE in files else "")
                writer.replace_report(run, LoggedReport(files, values, tags), int(time.time() * 1000))
                writer.remember_report(experiment.report_name, digest, run)
                return run
            except Deleted as error:
                raise StoreError(
                    f"the MLflow run of {experiment.name} was deleted, so the report cannot be logged into it",
                    where=f"{shown_uri(self.uri)}, experiment {place}",
                    fix="restore it in MLflow: `plat ui` shows what was deleted there",
                ) from error


def _row(
    run: StoredRun, found: Measured | None, names: Mapping[str, str], axes: Mapping[str, Any], params: bool
) -> dict[str, Any]:
    """Return the row of a run in `Frames.runs`; `found` is None for a run that was changed in the store."""
    tags: dict[str, str] = dict(found.facts["tags"]) if found else {}
    row = {
        "run_id": run.id,
        "name": tags.get("plat.name", names.get(run.id, run.id)),
        "mlflow_id": run.mlflow_id,
        "outcome": tags.get("plat.outcome") if found else DAMAGED,
        "attempt": int(tags.get("plat.attempt", 0)),
    }
    row |= {f"axis.{axis}": value for axis, value in axes.items()}
    if params and found:
        config = parse_yaml(found.facts["run"].get("config") or "{}")
        flat = flatten(config if isinstance(config, dict) else {})
        row |= {f"param.{clean_key(key)}": cut(masked(text(value)), PARAM_LENGTH) for key, value in flat.items()}
    return row | {f"tag.{key}": value for key, value in (tags | {f"plat.in.{file}": "1" for file in run.files}).items()}


def _runs_frame(rows: list[dict[str, Any]]) -> DataFrame:
    import pandas as pd

    order = {"axis": 0, "para": 1, "tag.": 2}
    rest = {key for row in rows for key in row} - set(RUN_COLUMNS)
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
    keys = np.array([key for _, of_run in series for key in of_run.keys], dtype=object)
    ids = np.array([plat_id for plat_id, of_run in series for _ in of_run.keys], dtype=object)
    return pd.DataFrame(
        {
            "run_id": np.repeat(ids, counts),
            "key": np.repeat(keys, counts),
            "step": np.concatenate([np.zeros(0, np.int64), *(of_run.steps for _, of_run in series)]),
            "value": np.concatenate([np.zeros(0), *(of_run.values for _, of_run in series)]),
        },
        copy=False,
    )


def _tables_frame(tables: list[tuple[str, list[tuple[str, int, Any]]]]) -> DataFrame:
    import pandas as pd

    rows = [(plat_id, *row) for plat_id, own in tables for row in own]
    columns = ("run_id", "name", "step", "data")
    data = {column: pd.Series([row[i] for row in rows], dtype=object) for i, column in enumerate(columns)}
    return pd.DataFrame(data | {"step": data["step"].astype("int64")})
