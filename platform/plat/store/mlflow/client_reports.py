"""Reports in a store that MLflow's own client reaches: what of them is new, and the description above them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from plat.store.mlflow.backend import sql_value
from plat.store.mlflow.client_runs import MOST_TRIES, ClientRuns, is_active
from plat.store.mlflow.record import Point
from plat.store.mlflow.report_record import NOTE, experiment_note
from plat.store.mlflow.store_errors import store_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient


def changed_points(stored: Mapping[str, float], values: Mapping[str, float], time: int) -> list[Point]:
    """The values that are not the newest stored ones. MLflow cannot delete a metric: one that the report has no more
    becomes NaN."""
    wanted = dict.fromkeys(stored, math.nan) | dict(values)
    return [
        Point(key, 0, float(value), time)
        for key, value in wanted.items()
        if key not in stored or sql_value(stored[key]) != sql_value(float(value))
    ]


def describe_experiment(uri: str, client: MlflowClient, runs: ClientRuns, number: str) -> None:
    """Write the description of an MLflow experiment from the reports of its files; again where another home has logged
    one meanwhile."""
    for _ in range(MOST_TRIES):
        own = runs.search("tags.`plat.kind` = 'experiment'", [number])
        with store_errors(uri):
            present = client.get_experiment(number).tags.get(NOTE, "")
            note = experiment_note([run.data.tags for run in own if is_active(run)], present)
            if note == present:
                return
            client.set_experiment_tag(number, NOTE, note)
