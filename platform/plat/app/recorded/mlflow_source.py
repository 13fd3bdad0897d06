"""Read the runs of an experiment of MLflow: a database, a folder `mlruns`, or a server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.app.recorded.foreign_run import ForeignRun, Read, merged, text_values
from plat.app.recorded.metric_choice import Choice, check_known, is_metric
from plat.errors import SpecError, StoreError
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.sqlite_file import check_file
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import check_kind, shown_uri, sqlite_path
from plat.suggest import suggest
from plat.trainer.script.readers.objects import Logged
from plat.units import counted

PARENT = "mlflow.parentRunId"  # the tag of a child run
FINISHED = "FINISHED"  # MLflow's word
FOLDERS = "MLFLOW_ALLOW_FILE_STORE"  # MLflow's switch for stores in plain folders, which it no longer develops


def read_mlflow(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of one experiment, in the order of their start, and a note on child runs that were left out.

    Deleted runs are left out.

    Raises SpecError if the store cannot be read, if several are named, or if it has no such experiment or no run.
    """
    if len(sources) != 1:
        raise SpecError(f"{len(sources)} sources are named", where="the command line", fix="name one tracking URI")
    uri = _checked(sources[0])
    try:
        with store_errors(uri):
            return _runs(uri, choice)
    except StoreError as error:
        fix = "check the address, or run `mlflow db upgrade` on a database of an older MLflow"
        raise SpecError(f"MLflow: {error.what}", where=error.where, fix=fix) from error


def _checked(source: str) -> str:
    """Return the tracking URI of a source; a path without a scheme is a folder `mlruns` or a SQLite file."""
    fix = "name sqlite:///FILE.db, a folder mlruns, or the address of a server"
    try:
        check_kind(source)
        path = sqlite_path(source) if "://" in source else Path(source)
    except StoreError as error:
        raise SpecError(error.what, where=error.where, fix=fix) from None
    if path is not None and not path.exists():  # MLflow would make a new store there
        raise SpecError("there is no such store", where=str(path), fix=fix)
    if path is None:
        return source
    if path.is_dir() and not any(path.glob("*/meta.yaml")):
        raise SpecError("the folder is no store of MLflow", where=str(path), fix=fix)
    return str(path.absolute()) if path.is_dir() else f"sqlite:///{path.absolute()}"


def _runs(uri: str, choice: Choice) -> Read:
    from mlflow.entities import ViewType

    if "://" not in uri or uri.startswith("file:"):
        os.environ.setdefault(FOLDERS, "true")
    if path := sqlite_path(uri):
        check_file(path)  # MLflow would write its tables into another program's database
    client: Any = mlflow_client(uri)
    experiments = {each.name: each.experiment_id for each in client.search_experiments()}
    name = _experiment(uri, client, experiments, choice.experiment)
    found = find_runs(client, "", ViewType.ACTIVE_ONLY, [experiments[name]])
    if not found:
        what = f"the experiment {name!r} has no run"
        raise SpecError(what, where=shown_uri(uri), fix="name another: --experiment NAME")
    check_known(choice, {metric for run in found for metric in run.data.metrics}, shown_uri(uri))
    notes: list[str] = []
    outer = [run for run in found if PARENT not in run.data.tags]
    if len(outer) < len(found) and any(run.data.metrics for run in outer):  # else the children are the runs
        notes.append(f"left out, because they are child runs of others: {counted(len(found) - len(outer), 'run')}")
        found = outer
    found.sort(key=lambda run: (run.info.start_time, run.info.run_id))
    return [_run(client, uri, run, choice) for run in found], notes


def _experiment(uri: str, client: Any, experiments: dict[str, str], asked: str) -> str:
    """Return the experiment that was asked for, or else the only one that has runs."""
    if asked in experiments:
        return asked
    if asked:
        what = f"there is no experiment {asked!r}"
        raise SpecError(what, where=shown_uri(uri), fix=suggest(asked, experiments, "experiments"))
    names = [name for name, number in experiments.items() if client.search_runs([number], max_results=1)]
    if len(names) != 1:
        what = f"{len(names)} experiments have runs" if names else "no experiment has runs"
        fix = f"name one: --experiment NAME ({', '.join(names)})" if names else "name another store"
        raise SpecError(what, where=shown_uri(uri), fix=fix)
    return names[0]


def _run(client: Any, uri: str, run: Any, choice: Choice) -> ForeignRun:
    chosen = {*choice.metrics, choice.step}
    names = [name for name in run.data.metrics if (name in chosen if choice.metrics else is_metric(name))]
    points = [point for name in names for point in client.get_metric_history(run.info.run_id, name)]
    points.sort(key=lambda point: point.timestamp)
    history, replaced = merged(Logged(point.step, {point.key: point.value}, point.timestamp) for point in points)
    name = f"{run.info.run_name} ({run.info.run_id})"
    place = f"{shown_uri(uri)}, run {run.info.run_id}"
    params, finished = dict(run.data.params), run.info.status == FINISHED
    return ForeignRun(name, text_values(params), history, place, finished, replaced, params)
