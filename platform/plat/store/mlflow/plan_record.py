"""Write the plan of `decide` into the MLflow store before its first run, and read it back.

A plan is a tag `plat.plan.<digest>` of the file's MLflow run, written once. Its text has the time, the looks, the
margin, a hash of the claims, and the beginning of the id of one run of each seed, which shows plans of the same runs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from plat.store.home import Home
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.importer import file_info, import_lock
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.run_record import experiment_name
from plat.store.mlflow.run_tags import clean_key
from plat.store.mlflow.sqlite_file import has_content
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

PLAN = "plat.plan."
ID_LENGTH = 8  # characters of a run's id


@dataclass(frozen=True)
class PlanRecord:
    """A plan of `decide`.

    looks    pairs at each look
    margin   the margin of the file; None: that of each claim
    claims   hash of the claims
    runs     the beginning of the id of one run of each seed
    written  when it was written, in UTC: `2026-11-29 07:40:00`; "" before
    """

    looks: tuple[int, ...]
    margin: float | None
    claims: str
    runs: tuple[str, ...]
    written: str = ""

    @property
    def digest(self) -> str:
        """Return a hash of what is planned, without the time."""
        content = {**asdict(self), "written": ""}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def plan_record(experiment: Experiment, runs: Sequence[str]) -> PlanRecord:
    """Return the plan of an experiment with `decide`; `runs` are the ids of one run of each seed."""
    assert experiment.decide is not None
    claims = json.dumps(experiment.claims, sort_keys=True, default=str)
    digest = hashlib.sha256(claims.encode()).hexdigest()[:12]
    short = tuple(run[:ID_LENGTH] for run in runs)
    return PlanRecord(experiment.decide.looks, experiment.decide.margin, digest, short)


def read_plans(home: Home, uri: str, experiment: Experiment) -> list[PlanRecord]:
    """Return the plans that the store has of this file, the oldest first. Raises StoreError if it cannot be read."""
    from mlflow.entities import ViewType

    path = sqlite_path(uri)
    if path is not None and not has_content(path):
        return []
    with store_errors(uri):
        query = f"tags.`plat.file` = '{clean_key(experiment.name)}'"
        found = find_runs(mlflow_client(uri), query, ViewType.ACTIVE_ONLY)
    texts = [value for run in found for key, value in run.data.tags.items() if key.startswith(PLAN)]
    read = [json.loads(text) for text in texts]
    plans = [PlanRecord(**{**one, "looks": tuple(one["looks"]), "runs": tuple(one["runs"])}) for one in read]
    return sorted(plans, key=lambda plan: plan.written)


def write_plan(home: Home, uri: str, experiment: Experiment, plan: PlanRecord) -> None:
    """Write a plan with the present time. Raises StoreError if the store cannot be written."""
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    text = json.dumps({**asdict(plan), "written": now})
    place = experiment_name(experiment.paper, clean_key(experiment.name), experiment.scale)
    with import_lock(home), open_writer(home, uri) as writer:
        run = writer.file_run(place, file_info(experiment))
        with store_errors(uri):
            writer.client.set_tag(run, f"{PLAN}{plan.digest}", text)
