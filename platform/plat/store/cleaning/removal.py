"""Remove runs from a home together with their MLflow runs."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence

from plat.errors import HomeError, os_errors_as
from plat.store.home import Home
from plat.store.mlflow import deletion
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths


def remove_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Delete these runs, their checkpoints and their MLflow runs.

    Raises LeaseHeld if a process works on one or may do so, and HomeError if a link leads to one outside of the home;
    then nothing is deleted. Raises StoreError or HomeError if the store or the home cannot be changed; then some runs
    may be deleted.
    """
    for run in runs:
        if run.root.is_symlink() or not home.holds(run.root):
            what = "a link leads to this run, which lies outside of the home"
            raise HomeError(what, where=str(run.root), fix="remove it where it lies, and then the link")
    with contextlib.ExitStack() as stack:
        for run in runs:
            held = lease.take(run)  # no process can start the run meanwhile
            if held is None:
                raise lease.refusal(run)
            stack.callback(held.release)
        # The store first: after a kill here the directories remain, the next import restores the MLflow runs from
        # them, and the same call resumes.
        deletion.remove(home, uri, [run.id for run in runs])
        for run in runs:
            fix = "make it writable, then give the same command again"
            with os_errors_as(HomeError, "cannot remove the run's directory", run.root, fix):
                run.result.unlink(missing_ok=True)  # first, so that a kill leaves no done run behind
                shutil.rmtree(run.root)
