"""Import what runs have recorded into the store, and report what could not be imported."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plat.app.messages import followed, tell
from plat.errors import HomeError, StoreError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.units import are, counted, duration

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run
    from plat.store.mlflow.frames import Frames
    from plat.store.mlflow.importer import ImportReport

IMPORT_TIMEOUT = 2.0  # seconds to wait for a locked store during a sweep: no run is started meanwhile
NOT_HERE = "remove it in MLflow, then `plat sync` from the home that has its directory, or `plat import` its bundle"
SECONDS_A_RUN = 0.3  # of a conversion of 40 metrics of 200 steps in a SQLite store; a server takes longer
REFRESHED = 4  # runs that are copied at once while they execute: about .1 s each
IMPORT_EVERY = 5.0  # seconds between imports during a sweep: the cores belong to the runs


def import_all(
    home: Home,
    uri: str,
    experiments: Sequence[Experiment],
    runs: Iterable[RunPaths] | None = None,
    *,
    mirror: bool = False,
) -> ImportReport:
    """Copy run directories that are new or have changed into the MLflow store at `uri`; print or log its warnings.

    Raises StoreError if the store cannot be used.

    runs    default: the experiments' runs, or all runs of the home when there are no experiments
    mirror  write all of these runs again, with the steps of their metrics in MLflow's tables
    """
    from plat.store.mlflow.importer import import_runs

    if runs is None and experiments:
        wanted = {run.id: None for experiment in experiments for run in experiment.runs}
        runs = [home.run(run_id) for run_id in wanted]
    curves = True if mirror else None
    done = import_runs(home, uri, experiments, runs, follow=followed, again=mirror, curves=curves)
    for line in done.warnings():
        tell(f"warning: {line}")
    return done


def convert_store(home: Home, uri: str) -> None:
    """Convert the runs that plat 0.4 has stored and that have no directory here; print what was done and how long.

    Raises StoreError if the store cannot be used.
    """
    from plat.store.mlflow.conversion import convert, older_runs

    runs = older_runs(home, uri)
    if not runs:
        tell("every run of the store has its artifact: nothing is left to convert")
        return
    left = f"{counted(len(runs), 'run')} without a directory in this home"
    tell(f"{left}: read through MLflow's client, about {duration(len(runs) * SECONDS_A_RUN)}")
    tell("`plat import BUNDLE` of a bundle that has them is faster, and brings their directories as well")
    began = time.monotonic()
    convert(home, uri, runs, followed)
    tell(f"{counted(len(runs), 'run')} converted in {duration(time.monotonic() - began)}")


class ImportAsTheyEnd:
    """Imports runs while others still run: those that have ended at most every IMPORT_EVERY seconds.

    A failed import is tried again with the next run that ends. Of runs that execute, what a resumed run would keep is
    copied, a few at a time, so that MLflow's page shows their curves.
    """

    def __init__(self, home: Home, uri: str, experiments: Sequence[Experiment]) -> None:
        self._home = home
        self._uri = uri
        self._experiments = experiments
        self._waiting: list[RunPaths] = []
        self._imported = time.monotonic()
        self._refreshed: dict[str, int] = {}  # id of a run that executes -> how often it was copied

    def refresh(self, running: Sequence[Run]) -> None:
        """Copy the runs that were copied least often, REFRESHED at most; StoreError when the store cannot be used."""
        from plat.store.mlflow.importer import import_runs

        chosen = sorted(running, key=lambda run: self._refreshed.get(run.id, 0))[:REFRESHED]
        if chosen:
            self._refreshed |= {run.id: self._refreshed.get(run.id, 0) + 1 for run in chosen}
            runs = [self._home.run(run.id) for run in chosen]
            import_runs(self._home, self._uri, self._experiments, runs, timeout=IMPORT_TIMEOUT)

    def add(self, run: Run) -> None:
        """Add a run that has ended, and import if it is time; StoreError when the store cannot be used now."""
        from plat.store.mlflow.importer import import_runs

        self._waiting.append(self._home.run(run.id))
        if time.monotonic() - self._imported >= IMPORT_EVERY:
            try:
                import_runs(self._home, self._uri, self._experiments, self._waiting, timeout=IMPORT_TIMEOUT)
                self._waiting.clear()
            finally:
                self._imported = time.monotonic()


def catch_up(home: Home, uri: str, experiments: Sequence[Experiment]) -> int:
    """Import what can be imported before results are shown; return 3 when a run was found damaged, else 0.

    In a read-only home (an archive) nothing is imported; a warning on stderr says so if the store is out of date.
    """
    if not home.runs.is_dir():
        return 0
    exit_code = 0
    with unless_archived(home, uri, "the store is not brought up to date"):
        exit_code = import_all(home, uri, experiments).exit_code
    return exit_code


def load_results(home: Home, uri: str, experiment: Experiment, *, fix: bool = True) -> Frames:
    """Load the results of an experiment from the store.

    With `fix`, runs that were changed in the store are imported again from the home, with a warning. Runs that stay
    changed are in `Frames.changed`; their results are left out.
    """
    from plat.store.mlflow.frames import Store

    store = Store(uri, home)
    frames = store.load(experiment, params=False)
    if frames.older:
        runs = f"{counted(len(frames.older), 'run')} stored by plat 0.4 {are(len(frames.older))} left out"
        tell(f"warning: {runs}: `plat sync --convert` converts them")
    if not frames.changed:
        return frames
    if fix:
        here = [run for run in map(home.run, frames.changed) if run.result.exists()]
        with unless_archived(home, uri, "the store is not fixed"):
            _restore(home, uri, here)
            frames = store.load(experiment, params=False)
    for run_id, problem in list(frames.changed.items())[:5]:
        text = f"run {run_id} was changed in the store: {problem}; its results are left out ({NOT_HERE})"
        tell(f"warning: {text}")
    if len(frames.changed) > 5:
        tell(f"warning: and {len(frames.changed) - 5} more changed in the store")
    return frames


def _restore(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Import runs again whose artifacts were changed in the store; print or log which."""
    from plat.store.mlflow.importer import import_runs

    if runs:
        for line in import_runs(home, uri, runs=runs, again=True).warnings():
            tell(f"warning: {line}")


@contextlib.contextmanager
def unless_archived(home: Home, uri: str, consequence: str) -> Iterator[None]:
    """In a `with` block, turn a HomeError or StoreError into a warning if the home or the SQLite store is read-only.

    Otherwise the error is raised. `consequence` begins the warning: it says what the failed block leaves undone.
    """
    from plat.store.mlflow.uri import sqlite_path

    try:
        yield
    except (HomeError, StoreError) as error:
        database = sqlite_path(uri)
        places = [home.root, *([database, database.parent] if database else [])]
        if not any(place.exists() and not os.access(place, os.W_OK) for place in places):
            raise
        tell(f"warning: {consequence}: {error.what} ({error.where})")
