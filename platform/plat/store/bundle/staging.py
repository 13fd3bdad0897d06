"""Run directories of imported runs, made beside `runs/` and then renamed into their place one by one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from plat.errors import HomeError
from plat.store.bundle.run import BundledRun, write_run
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

SCRATCH = ".tmp-bundle"  # in the home; used under the import lock, so an old one is of an import that was killed
_NO_PLACE = "mend the permissions or free some disk space, and give the same command again; nothing was imported"


@contextmanager
def staged_runs(home: Home, runs: Iterable[BundledRun]) -> Iterator[list[RunPaths]]:
    """Run directories of these runs beside `runs/`, gone again afterwards unless they were moved."""
    scratch = home.root / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        staged = []
        try:
            for run in runs:
                staged.append(RunPaths(scratch / run.id))
                write_run(run, staged[-1])
        except OSError as error:
            raise HomeError(
                f"the runs of the bundle could not be written: {error.strerror or error}",
                where=str(home.root),
                mend=_NO_PLACE,
            ) from error
        yield staged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def put_in_place(staged: RunPaths, target: RunPaths) -> None:
    """Put a staged run in its place, for a directory there in which nothing was ever started."""
    try:
        if target.root.exists():
            os.rename(target.root, staged.root.with_name(f"{staged.id}.replaced"))
        target.root.parent.mkdir(exist_ok=True)
        os.rename(staged.root, target.root)
    except OSError as error:
        raise HomeError(
            f"a run of the bundle could not be put in its place: {error.strerror or error}",
            where=str(target.root),
            mend="give the same command again; runs that are in their place already stay",
        ) from error
