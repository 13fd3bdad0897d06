"""Removes runs from a home together with their MLflow runs, or sets them aside so that they can be brought back.

Promised: a run that somebody works on is left alone, and nobody can start one meanwhile, because its lease is held. The
store is changed first: after a kill in between, the next import makes the MLflow run again from the directory that is
still there, and the same call goes on. A run that was archived can be done anew: it is imported as a new MLflow run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Sequence

from plat.errors import HomeError, SpecError
from plat.store.durable import fsync_folder
from plat.store.home import Home
from plat.store.mlflow import removal
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths


def remove_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Delete these runs, their checkpoints and their MLflow runs for good. LeaseHeld when somebody works on one."""
    _take_away(home, uri, runs, removal.remove, _delete)


def archive_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> None:
    """Move these runs to the home's archive, and their MLflow runs into MLflow's bin. LeaseHeld as above."""
    home.archive.mkdir(exist_ok=True)
    taken = [run.id for run in runs if os.path.lexists(home.archived(run.id).root)]
    if taken:
        raise SpecError(
            f"{len(taken)} of these runs are in the archive already: {', '.join(taken[:5])}",
            where=str(home.archive),
            mend="`plat rm` removes the newer ones, or move the older folders away",
        )
    _take_away(home, uri, runs, removal.put_in_bin, lambda run: _rename(run, home.archived(run.id)))


def restore_runs(home: Home, uri: str, runs: Sequence[RunPaths]) -> list[str]:
    """Bring runs back from the archive, and their MLflow runs from MLflow's bin; the ids of those that stay there.

    A run that was started again meanwhile stays: two directories would be one run. SpecError when that is so of all.
    """
    again = [run.id for run in runs if os.path.lexists(home.run(run.id).root)]
    if again and len(again) == len(runs):
        raise SpecError(
            f"started again meanwhile, so that nothing can be restored: {', '.join(again[:5])}"
            + (f" and {len(again) - 5} more" if len(again) > 5 else ""),
            where=str(home.runs),
            mend="`plat rm` removes the newer ones; then give the same command again",
        )
    restorable = [run for run in runs if run.id not in again]
    removal.take_out_of_bin(home, uri, [run.id for run in restorable])
    for run in restorable:
        target = home.run(run.id)
        target.root.parent.mkdir(parents=True, exist_ok=True)
        _rename(run, target)
    return again


def archived_runs(home: Home) -> list[RunPaths]:
    """The runs in the archive, by id."""
    return [home.archived(run_id) for run_id in home.archived_ids()]


def _take_away(
    home: Home,
    uri: str,
    runs: Sequence[RunPaths],
    from_store: Callable[[Home, str, Sequence[str]], int],
    from_home: Callable[[RunPaths], None],
) -> None:
    with contextlib.ExitStack() as stack:
        for run in runs:
            stack.enter_context(_held(run))
        from_store(home, uri, [run.id for run in runs])
        for run in runs:
            try:
                from_home(run)
            except OSError as error:
                raise HomeError(
                    f"cannot remove the run's directory: {error.strerror or error}",
                    where=str(run.root),
                    mend="make it writable, then give the same command again",
                ) from error


@contextlib.contextmanager
def _held(run: RunPaths) -> Iterator[None]:
    """The lease of a run; LeaseHeld when somebody else has it."""
    held = lease.take(run)
    if held is None:
        raise lease.refusal(run)
    try:
        yield
    finally:
        held.release()


def _delete(run: RunPaths) -> None:
    run.result.unlink(missing_ok=True)  # first: what a kill leaves behind must not pass for a done run
    shutil.rmtree(run.root)


def _rename(run: RunPaths, target: RunPaths) -> None:
    run.lease.unlink(missing_ok=True)
    os.rename(run.root, target.root)
    fsync_folder(target.root.parent)
