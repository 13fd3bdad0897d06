"""The runs of a store that MLflow's own client reaches: found by their tags, and one kept where homes made it twice.

The lock of a home does not reach the other homes whose runs go to the same server, and MLflow cannot create a run on
the condition that there is none. So whoever has created one searches again: of several runs that are the same, all
importers keep the same one (`keep_one`) and delete the others. Until a run is stored as a whole, its tag
`plat.imported` says which home writes it, and other homes wait for that one, PATIENCE seconds at most.
"""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plat.errors import StoreError
from plat.store.mlflow.backend import ARCHIVED, SIGNATURE, TWIN, Known
from plat.store.mlflow.digest import TAG
from plat.store.mlflow.store_errors import store_errors

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

T = TypeVar("T")
WRITING = "being written since "  # the tag plat.imported of a run that is not stored as a whole yet
MOST_TRIES = 8  # of what may fail because another importer does the same at that moment
PAUSE = 0.5  # seconds at most before it is tried again
_AT_ONCE = re.compile("IntegrityError|UniqueViolation|locked by another|deadlock|serializ", re.IGNORECASE)
PATIENCE = 30.0  # seconds; then the home that began to write is taken for dead


class ClientRuns:
    """Finds runs, those in MLflow's bin too, and remembers what it has read. `home` is the one that writes runs here.

    StoreError, from `search` and what uses it, when the store does not answer; other methods leave that to the caller.
    """

    def __init__(self, uri: str, client: MlflowClient, home: Path) -> None:
        self._uri = uri
        self._client = client
        self._read: dict[str, Run] = {}  # by MLflow id
        self._writer = f" by {socket.gethostname()}:{home.resolve()}"

    def get(self, mlflow_id: str) -> Run:
        """A run as it was last read."""
        return self._read.get(mlflow_id) or self._client.get_run(mlflow_id)

    def forget(self, mlflow_id: str) -> None:
        """The run has changed: read it anew when it is next asked for."""
        self._read.pop(mlflow_id, None)

    def clear(self) -> None:
        """Forget every run that was read."""
        self._read.clear()

    def search(self, query: str, experiments: list[str] | None = None) -> list[Run]:
        """Every run that matches, deleted ones too, in all MLflow experiments unless some are named."""
        from mlflow.entities import ViewType

        runs: list[Any] = []
        with store_errors(self._uri):
            if experiments is None:
                known = self._client.search_experiments(view_type=ViewType.ALL, max_results=10000)
                experiments = [experiment.experiment_id for experiment in known]
            token = None
            while True:
                page = self._client.search_runs(experiments, query, ViewType.ALL, max_results=1000, page_token=token)
                runs += page
                token = page.token
                if not token:
                    break
        self._read.update({run.info.run_id: run for run in runs})
        return runs

    def of_file(self, experiment: str, file: str) -> Run | None:
        """The own run of an experiment file in an MLflow experiment; an active one before one that a user deleted."""
        runs = self.search(f"tags.`plat.file` = '{file}'", [experiment])
        active = sorted((run for run in runs if is_active(run)), key=first_kept)
        if active:
            self.drop(active[1:], active[0])
        return next(iter([*active, *(run for run in runs if not is_twin(run))]), None)

    def deleted_of_file(self, experiment: str, file: str) -> set[str]:
        """The MLflow ids of the runs of this file that are in MLflow's bin."""
        runs = self.search(f"tags.`plat.file` = '{file}'", [experiment])
        return {str(run.info.run_id) for run in runs if not is_active(run)}

    def keep_one(self, made: Run, query: str, experiments: list[str] | None = None) -> Run:
        """The run to keep of those that a query finds, after `made` was created because it had found none.

        One that is stored as a whole comes first, then the one that was created first. The others are deleted.
        """
        first, *others = self._same(query, experiments) or [made]
        self.drop(others, first)
        return first

    def drop(self, twins: Iterable[Run], kept: Run) -> None:
        """Put runs into MLflow's bin, with a tag that says for which one; another importer may be faster."""
        from mlflow.exceptions import MlflowException

        for twin in (run.info.run_id for run in twins):
            for tries in range(MOST_TRIES):
                try:
                    self._client.set_tag(twin, TWIN, kept.info.run_id)  # tags in the bin cannot be changed
                    self._client.delete_run(twin)
                except MlflowException:
                    if is_active(self._client.get_run(twin)):
                        if tries + 1 == MOST_TRIES:
                            raise
                        time.sleep(random.uniform(0, PAUSE))
                        continue
                break
            self.forget(twin)

    def write_kept(self, write: Callable[[Run | None], T], query: str, experiments: list[str] | None = None) -> T:
        """What `write` gives for the run that is kept of those that a query finds; for None it creates the run.

        Another importer may delete a run while it is written here, because one that it has created comes first. Then
        that one is written, and so on: there are as many at most as there are importers. Where two importers have
        each deleted the other's, the run is created anew. Where two write the same row at once, it is written again.
        """
        written: Run | None = None
        again = 0
        while True:
            try:
                return write(written)
            except StoreError as error:
                same = self._same(query, experiments)
                if same and (written is None or same[0].info.run_id != written.info.run_id):
                    written = same[0]
                    continue
                again += 1
                may_help = _AT_ONCE.search(error.what) if same else any(map(is_twin, self.search(query, experiments)))
                if again > MOST_TRIES or not may_help:
                    raise
                time.sleep(random.uniform(0, PAUSE))
                written = same[0] if same else None

    def _same(self, query: str, experiments: list[str] | None) -> list[Run]:
        """The active runs that a query finds, the one to keep first."""
        return sorted((run for run in self.search(query, experiments) if is_active(run)), key=first_kept)

    def writing_mark(self) -> str:
        """The tag `plat.imported` of a run that this home begins to write now."""
        return f"{WRITING}{time.time_ns()}{self._writer}"

    def wait_for_writer(self, run: Run) -> Run:
        """The run once no other home writes it any more, or it is deleted; one that stays as it is becomes ours."""
        until = time.monotonic() + PATIENCE
        while is_active(run) and is_being_written(run) and not run.data.tags[SIGNATURE].endswith(self._writer):
            if time.monotonic() > until:
                self._client.set_tag(run.info.run_id, SIGNATURE, self.writing_mark())
                break
            time.sleep(0.2)
            run = self._client.get_run(run.info.run_id)
        return run


def is_active(run: Run) -> bool:
    """Whether the run is not in MLflow's bin."""
    return bool(run.info.lifecycle_stage == "active")


def is_archived(run: Run) -> bool:
    """Whether the run is in MLflow's bin because `plat archive` has put it there."""
    return not is_active(run) and ARCHIVED in run.data.tags


def is_twin(run: Run) -> bool:
    """Whether the run is in MLflow's bin because it was created twice."""
    return not is_active(run) and TWIN in run.data.tags


def first_kept(run: Run) -> tuple[bool, str, int, str]:
    """A key by which all importers sort active runs that are the same: the one to keep comes first."""
    return is_being_written(run), run.data.tags.get(SIGNATURE, ""), run.info.start_time, run.info.run_id


def is_being_written(run: Run) -> bool:
    """Whether some home is writing the run, or was when it was killed."""
    return str(run.data.tags.get(SIGNATURE, "")).startswith(WRITING)


def known_of(run: Run) -> Known:
    """What the tags of a run say of it."""
    tags = run.data.tags
    files = frozenset(key.removeprefix("plat.in.") for key in tags if key.startswith("plat.in."))
    outcome, has_digest = tags.get("plat.outcome"), TAG in tags
    return Known(run.info.run_id, tags.get(SIGNATURE), files, not is_active(run), outcome, has_digest)
