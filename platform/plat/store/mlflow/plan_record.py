"""Write the plan of `decide` into the MLflow store before its first run, and read it back.

A plan is a tag `plat.plan.<digest>` of the file's MLflow run, written once. Its text has the time, the looks, the
margin, a hash of the claims, and the beginning of the id of one run of each seed, which shows plans of the same runs.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from plat.spec.expansion.decide import ERROR
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
    from mlflow.entities import Run

    from plat.spec.expansion.experiment import Experiment

PLAN = "plat.plan."
JUDGED = "plat.judged"
ID_LENGTH = 8  # characters of a run's id


@dataclass(frozen=True)
class PlanRecord:
    """A plan of `decide`.

    looks    pairs at each look
    margin   the margin of the file; None: that of each claim
    claims   hash of the claims
    runs     the beginning of the id of one run of each seed
    seeds    the seeds of the last look
    file     the name of the experiment file
    error    of *shown*, one-sided, over all looks
    study    the study of `plat judge` that it belongs to; "" without
    written  when it was written, in UTC: `2026-11-29 07:40:00`; "" before
    """

    looks: tuple[int, ...]
    margin: float | None
    claims: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...] = ()
    file: str = ""
    written: str = ""
    error: float = ERROR
    study: str = ""

    @property
    def digest(self) -> str:
        """Return a hash of what is planned, without the time."""
        content = {**asdict(self), "written": ""}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    def agrees(self, other: PlanRecord) -> bool:
        """Return True if both judge the same claims at the same looks, with one margin."""
        return all(getattr(self, part) == getattr(other, part) for part in ("looks", "margin", "claims", "error"))

    def overlaps(self, other: PlanRecord) -> bool:
        """Return True if both have a run in common, or are of one file and have a seed in common."""
        return bool(set(self.runs) & set(other.runs)) or (
            self.file == other.file and bool(set(self.seeds) & set(other.seeds))
        )


def plan_record(experiment: Experiment, runs: Sequence[str]) -> PlanRecord:
    """Return the plan of an experiment with `decide`; `runs` are the ids of one run of each seed."""
    assert experiment.decide is not None
    judged = [
        {key: value for key, value in claim.items() if key not in ("says", "expect", "ours")}
        for claim in experiment.claims
    ]
    claims = json.dumps(judged, sort_keys=True, default=str)
    digest = hashlib.sha256(claims.encode()).hexdigest()[:12]
    short = tuple(run[:ID_LENGTH] for run in runs)
    seeds, name = tuple(experiment.axes["seed"]), clean_key(experiment.name)
    decide = experiment.decide
    return PlanRecord(decide.looks, decide.margin, digest, short, seeds, name, error=decide.error, study=decide.study)


def read_plans(uri: str, name: str | None = None) -> list[PlanRecord]:
    """Return the plans that the store has, or those of the file of this name, the oldest first.

    Raises StoreError if the store cannot be read.
    """
    tags = [(key, value) for run in _file_runs(uri, name) for key, value in run.data.tags.items()]
    plans = [plan_of(json.loads(text)) for key, text in tags if key.startswith(PLAN)]
    return sorted(plans, key=lambda plan: plan.written)


def read_study(uri: str, study: str) -> list[tuple[PlanRecord, str]]:
    """Return the plans of a study, the oldest first, each with its verdict; "" for one that is not decided.

    Raises StoreError if the store cannot be read.
    """
    found = [
        (plan, run.data.tags.get(JUDGED, ""))
        for run in _file_runs(uri, None)
        for key, text in run.data.tags.items()
        if key.startswith(PLAN) and (plan := plan_of(json.loads(text))).study == study
    ]
    return sorted({plan.file: (plan, word) for plan, word in found}.values(), key=lambda item: item[0].seeds)


def write_judged(home: Home, uri: str, name: str, word: str) -> None:
    """Note the verdict of `plat judge` at the file's run in the store. Raises StoreError if it cannot be written."""
    with import_lock(home), open_writer(home, uri) as writer:
        for run in _file_runs(uri, name)[:1]:
            with store_errors(uri):
                writer.client.set_tag(run.info.run_id, JUDGED, word)


def plan_of(values: Mapping[str, Any]) -> PlanRecord:
    """Return a plan from its fields, as JSON has them."""
    lists = {key: tuple(values.get(key, ())) for key in ("looks", "runs", "seeds")}
    return PlanRecord(**{**values, **lists})


def _file_runs(uri: str, name: str | None) -> list[Run]:
    """Return the MLflow runs of experiment files, or of the file of this name."""
    from mlflow.entities import ViewType

    path = sqlite_path(uri)
    if path is not None and not has_content(path):
        return []
    with store_errors(uri):
        query = "tags.`plat.kind` = 'experiment'" if name is None else f"tags.`plat.file` = '{clean_key(name)}'"
        return find_runs(mlflow_client(uri), query, ViewType.ACTIVE_ONLY)


def keep_plans(home: Home, uri: str, name: str, plans: Sequence[PlanRecord]) -> None:
    """Add plans, with their times, to the file's run in the store, which exists; those that it has stay.

    Raises StoreError if the store cannot be written.
    """
    known = {plan.digest for plan in read_plans(uri, name)}
    new = [plan for plan in plans if plan.digest not in known]
    if not new:
        return
    with import_lock(home), open_writer(home, uri) as writer:
        for run in _file_runs(uri, name)[:1]:
            for plan in new:
                with store_errors(uri):
                    writer.client.set_tag(run.info.run_id, f"{PLAN}{plan.digest}", json.dumps(asdict(plan)))


def write_plan(
    home: Home, uri: str, experiment: Experiment, plan: PlanRecord, check: Callable[[list[PlanRecord]], object]
) -> None:
    """Write a plan with the present time, after a `check` of those that the store has by now.

    Raises StoreError if the store cannot be written, and what `check` raises.
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    text = json.dumps({**asdict(plan), "written": now})
    place = experiment_name(experiment.paper, clean_key(experiment.name), experiment.scale)
    with import_lock(home), open_writer(home, uri) as writer:
        check(read_plans(uri))
        run = writer.file_run(place, file_info(experiment))
        with store_errors(uri):
            writer.client.set_tag(run, f"{PLAN}{plan.digest}", text)
