"""Brings runs that were changed in the store back from their directories, for reports that find them so.

The reader knows such a run by its digest (`plat.store.mlflow.digest`). Promised: a run is taken out of the store only
where its directory is here, done and whole; its values are then those of the directory. A server cannot take back a
value: there, what is missing comes back, and a changed value stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing

from plat.store.home import Home
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.importer import import_lock, import_runs
from plat.store.mlflow.record import read_record
from plat.store.run_directory.paths import RunPaths


def restore_runs(home: Home, uri: str, ids: Iterable[str]) -> None:
    """Import these runs again in place of what the store holds of them, as far as that is possible.

    StoreError or HomeError when the store or the home cannot be written.
    """
    runs = [paths for run_id in ids if _is_whole(paths := home.run(run_id))]
    if not runs:
        return
    with import_lock(home), closing(open_backend(home, uri)) as backend:
        known = backend.known([paths.id for paths in runs])
        for paths in runs:
            if paths.id in known:
                backend.forget(known[paths.id])
    import_runs(home, uri, runs=runs)


def _is_whole(paths: RunPaths) -> bool:
    record = read_record(paths)
    return record is not None and record.done and not record.damage
