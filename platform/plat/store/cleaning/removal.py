"""Remove runs from a home together with their MLflow runs, or archive them so that they can be restored.

An archived run can be started anew; it is then imported as a new MLflow run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Sequence

from plat.errors import HomeError, SpecError, os_errors_as
from plat.store.disk.durable import fsync_folder
from plat.store.home import Home
from plat.store.mlflow import deletion
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths


def remove_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Delete these runs, their checkpoints and their MLflow runs.

    Raises LeaseHeld if a process works on one or may do so; then nothing is deleted. Raises StoreError or HomeError if
    the store or the home cannot be changed; then some runs may be deleted.
    """
    _take_away(home, uri, runs, deletion.remove, _delete)


def archive_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Move these runs to the home's archive and their MLflow runs into MLflow's bin.

    Raises SpecError if one is in the archive already; LeaseHeld, StoreError and HomeError as `remove_runs`.
    """
    with os_errors_as(HomeError, "cannot make the archive", home.archive, "make the home writable"):
        home.archive.mkdir(exist_ok=True)
    taken = [run.id for run in runs if os.path.lexists(home.archived(run.id).root)]
    if taken:
        raise SpecError(
            f"{len(taken)} of these runs are in the archive already: {', '.join(taken[:5])}",
            where=str(home.archive),
            fix="remove the newer runs with `plat rm`, or move the archived folders away",
        )
    _take_away(home, uri, runs, deletion.put_in_bin, lambda run: _rename(run, home.archived(run.id)))


def restore_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> list[str]:
    """Restore runs from the archive and their MLflow runs from MLflow's bin; return the ids that stay archived.

    `runs` are paths in the archive. A run that was started again stays archived, because it has a new directory.
    Raises SpecError if that holds for all; StoreError or HomeError if the store or home cannot be changed.
    """
    again = [run.id for run in runs if os.path.lexists(home.run(run.id).root)]
    if again and len(again) == len(runs):
        raise SpecError(
            f"nothing can be restored, because newer runs have the same ids: {', '.join(again[:5])}"
            + (f" and {len(again) - 5} more" if len(again) > 5 else ""),
            where=str(home.runs),
            fix="`plat rm` removes the newer ones; then give the same command again",
        )
    restorable = [run for run in runs if run.id not in again]
    deletion.take_out_of_bin(home, uri, [run.id for run in restorable])
    for run in restorable:
        target = home.run(run.id)
        with os_errors_as(HomeError, "cannot restore the run's directory", run.root, "make the home writable"):
            target.root.parent.mkdir(parents=True, exist_ok=True)
            _rename(run, target)
    return again


def archived_runs(home: Home) -> list[RunPaths]:
    """Return the paths of the runs in the archive, sorted by id."""
    return [home.archived(run_id) for run_id in home.archived_ids()]


def _take_away(
    home: Home,
    uri: str,
    runs: Sequence[RunPaths],
    from_store: Callable[[Home, str, Sequence[str]], None],
    from_home: Callable[[RunPaths], None],
) -> None:
    with contextlib.ExitStack() as stack:
        for run in runs:
            held = lease.take(run)  # no process can start the run meanwhile
            if held is None:
                raise lease.refusal(run)
            stack.callback(held.release)
        # The store first: after a kill here the directories remain, the next import restores the MLflow runs from
        # them, and the same call resumes.
        from_store(home, uri, [run.id for run in runs])
        for run in runs:
            fix = "make it writable, then give the same command again"
            with os_errors_as(HomeError, "cannot remove the run's directory", run.root, fix):
                from_home(run)


def _delete(run: RunPaths) -> None:
    run.result.unlink(missing_ok=True)  # first, so that a kill leaves no done run behind
    shutil.rmtree(run.root)


def _rename(run: RunPaths, target: RunPaths) -> None:
    run.lease.unlink(missing_ok=True)
    os.rename(run.root, target.root)
    fsync_folder(target.root.parent)
