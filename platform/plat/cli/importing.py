"""Bringing the store up to date with what runs have recorded, and saying what could not be imported."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plat.cli.waiting import followed
from plat.errors import HomeError, StoreError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.units import counted

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment, Run
    from plat.store.mlflow.frames import Frames
    from plat.store.mlflow.importer import ImportReport

IMPORT_TIMEOUT = 2.0  # seconds to wait for a locked store while runs go on: no run is started meanwhile
NOT_HERE = "remove it in MLflow, then `plat sync` from the home that has its directory, or `plat import` its bundle"
IMPORT_EVERY = 5.0  # seconds between imports while runs go on: the cores belong to the runs


def import_all(
    home: Home,
    uri: str,
    experiments: Sequence[Experiment],
    runs: Iterable[RunPaths] | None = None,
    *,
    with_diff: bool = False,
) -> ImportReport:
    """Import everything durable of these runs (default: the experiments' runs, or all of the home when there are no
    experiments), and say on stderr which could not be."""
    from plat.store.mlflow.importer import import_runs

    if runs is None and experiments:
        wanted = {run.id: None for experiment in experiments for run in experiment.runs}
        runs = [home.run(run_id) for run_id in wanted]
    done = import_runs(home, uri, experiments, runs, with_diff=with_diff, follow=followed)
    for line in done.warnings():
        print(f"warning: {line}", file=sys.stderr)
    return done


class ImportAsTheyEnd:
    """Brings runs into the store while others still run: at most every IMPORT_EVERY seconds, several at once.

    What could not be imported is tried again with the next run that ends.
    """

    def __init__(self, home: Home, uri: str, experiments: Sequence[Experiment]) -> None:
        self._home = home
        self._uri = uri
        self._experiments = experiments
        self._waiting: list[RunPaths] = []
        self._imported = time.monotonic()

    def add(self, run: Run) -> None:
        """A run has ended. StoreError when the store cannot be used now."""
        from plat.store.mlflow.importer import import_runs

        self._waiting.append(self._home.run(run.id))
        if time.monotonic() - self._imported >= IMPORT_EVERY:
            try:
                import_runs(self._home, self._uri, self._experiments, self._waiting, timeout=IMPORT_TIMEOUT)
                self._waiting.clear()
            finally:
                self._imported = time.monotonic()


def catch_up(home: Home, uri: str, experiments: Sequence[Experiment]) -> int:
    """Import what can be imported before results are shown; the exit code, 3 when a run was found damaged.

    Where nothing may be written (an archive), what the store holds is shown, with a warning on stderr if it is not up
    to date."""
    if not home.runs.is_dir():
        return 0
    exit_code = 0
    with unless_archived(home, uri, "the store is not brought up to date"):
        exit_code = import_all(home, uri, experiments).exit_code
    return exit_code


def load_results(home: Home, uri: str, experiment: Experiment, *, mend: bool = True) -> Frames:
    """The results of an experiment in the store. With `mend`, runs that were changed there since they were imported are
    imported anew where their directory is here; each is named on stderr, and the others are in `Frames.changed`."""
    from plat.store.mlflow.frames import Store

    store = Store(uri, home)
    frames = store.load(experiment, params=False)
    if not frames.changed:
        return frames
    from plat.store.mlflow.restoring import restore_runs

    found = frames.changed
    if mend:
        with unless_archived(home, uri, "the store is not mended"):
            restore_runs(home, uri, found)
            frames = store.load(experiment, params=False)
    restored = [run_id for run_id in found if run_id not in frames.changed]
    if restored:
        problem = f"e.g. {found[restored[0]]}"
        text = f"{counted(len(restored), 'run')} changed in the store ({problem}), imported anew from the home"
        print(f"warning: {text}: {', '.join(restored[:5])}", file=sys.stderr)
    for run_id, problem in list(frames.changed.items())[:5]:
        text = f"run {run_id} was changed in the store: {problem}; its results are left out ({NOT_HERE})"
        print(f"warning: {text}", file=sys.stderr)
    if len(frames.changed) > 5:
        print(f"warning: and {len(frames.changed) - 5} more changed in the store", file=sys.stderr)
    return frames


@contextlib.contextmanager
def unless_archived(home: Home, uri: str, consequence: str) -> Iterator[None]:
    """Turn a refusal to write into a warning when the home or the SQLite store is there to be read only."""
    from plat.store.mlflow.uri import sqlite_path

    try:
        yield
    except (HomeError, StoreError) as error:
        database = sqlite_path(uri)
        places = [home.root, *([database, database.parent] if database else [])]
        if not any(place.exists() and not os.access(place, os.W_OK) for place in places):
            raise
        print(f"warning: {consequence}: {error.what} ({error.where})", file=sys.stderr)
