"""Find runs through MLflow's client by their tags, and keep one of each that several homes create at once.

Homes on one server share no lock, and MLflow cannot create a run only if it is absent. So an importer searches again
after it has created a run: of equal runs all importers keep the same one (`keep_one`) and delete the others. Until a
run is stored completely, its tag `plat.imported` names the writing home; others wait for it at most PATIENCE seconds.
A SQLite file has one importer at a time (`sqlite_file.store_lock`), and so no duplicates.
"""

from __future__ import annotations

import random
import re
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from plat.errors import StoreError
from plat.store.mlflow.mlflow_client import find_runs
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.stored_runs import SIGNATURE, TWIN, WRITING, first_kept, is_active

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

T = TypeVar("T")
MOST_TRIES = 8  # of an operation that may collide with another importer's
PAUSE = 0.5  # longest random pause before a retry, in seconds
_AT_ONCE = re.compile("IntegrityError|UniqueViolation|locked by another|deadlock|serializ", re.IGNORECASE)
PATIENCE = 30.0  # seconds; after that the home that began to write is considered dead


class ClientRuns:
    """A search for runs, including those in MLflow's bin, with a cache. `home` is the folder of the writing home.

    `search` raises StoreError if the store does not answer, other methods MLflow's errors.
    """

    def __init__(self, uri: str, client: MlflowClient, home: Path) -> None:
        self._uri = uri
        self._client = client
        self._read: dict[str, Run] = {}  # by MLflow id
        self._writer = f" by {socket.gethostname()}:{home.resolve()}"

    def get(self, mlflow_id: str) -> Run:
        """Return a run as it was last read; read it if it is not in the cache."""
        return self._read.get(mlflow_id) or self._client.get_run(mlflow_id)

    def forget(self, mlflow_id: str) -> None:
        """Drop a changed run from the cache, so that the next `get` reads it again."""
        self._read.pop(mlflow_id, None)

    def search(self, query: str, experiments: list[str] | None = None) -> list[Run]:
        """Return every run that matches, deleted or not, in these MLflow experiments (ids; default: all)."""
        from mlflow.entities import ViewType

        with store_errors(self._uri):
            runs = find_runs(self._client, query, ViewType.ALL, experiments)
        self._read.update({run.info.run_id: run for run in runs})
        return runs

    def of_file(self, experiment: str, file: str) -> Run | None:
        """Return the run of an experiment file in an MLflow experiment (its id), an active one before a deleted one.

        Drops active duplicates. Returns None if there is no run, or only twins."""
        runs = self.search(f"tags.`plat.file` = '{file}'", [experiment])
        active = sorted((run for run in runs if is_active(run)), key=first_kept)
        if active:
            self.drop(active[1:], active[0])
        return next(iter([*active, *(run for run in runs if not is_twin(run))]), None)

    def keep_one(self, made: Run, query: str, experiments: list[str] | None = None) -> Run:
        """Return the first, by `first_kept`, of the active runs that an MLflow `query` finds; delete the others.

        Call it after `made` was created. Returns `made` if the query finds none."""
        first, *others = self._same(query, experiments) or [made]
        self.drop(others, first)
        return first

    def drop(self, twins: Iterable[Run], kept: Run) -> None:
        """Put runs into MLflow's bin, with the kept run's id in the tag TWIN. Accept those already in the bin."""
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
        """Call `write` until it succeeds on the run that all importers keep, and return its result.

        The first call gets None: `write` then finds or creates the run. After a StoreError `write` is called again if

        - another active run comes first now: another importer made it and deleted this one. `write` gets that run;
        - no active run is left: two importers have deleted each other's run. `write` gets None;
        - two importers have written the same row at once. `write` gets the same run.

        The last two cases together are repeated MOST_TRIES times at most. Then, and in all other cases, the StoreError
        is raised.
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
        """Return the active runs that a query finds, the one to keep first."""
        return sorted((run for run in self.search(query, experiments) if is_active(run)), key=first_kept)

    def writing_mark(self) -> str:
        """Return the value of the tag `plat.imported` while this home writes a run; each call returns another one."""
        return f"{WRITING}{time.time_ns()}{self._writer}"

    def wait_for_writer(self, run: Run) -> Run:
        """Wait while the run is active and another home writes it. Return the run as it was last read.

        After PATIENCE seconds, mark the run as written by this home and return.
        """
        until = time.monotonic() + PATIENCE
        while is_active(run) and is_marked(run) and not run.data.tags[SIGNATURE].endswith(self._writer):
            if time.monotonic() > until:
                self._client.set_tag(run.info.run_id, SIGNATURE, self.writing_mark())
                break
            time.sleep(0.2)
            run = self._client.get_run(run.info.run_id)
        return run


def is_twin(run: Run) -> bool:
    """Return True if the run is in MLflow's bin because it was created twice."""
    return not is_active(run) and TWIN in run.data.tags


def is_marked(run: Run) -> bool:
    """Return True if a home has marked the run as being written by it, or was killed while it wrote."""
    return str(run.data.tags.get(SIGNATURE, "")).startswith(WRITING)
