"""Return the states and descriptions of the runs of a home; a done run costs one `stat`, and opens no file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from plat.store.coordination.submissions import newest_records
from plat.store.home import Home
from plat.store.index.database import forget_rows
from plat.store.index.remembered import SAVED_FROM, Columns, Remembered, stamp, stamps
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import load_meta, read_result
from plat.store.run_directory.state import RunState, done_state, facts_of_done, run_state
from plat.words.states import RunStatus

FEW = 100  # up to this number of runs, read the directories without the index
UNTOUCHED = frozenset({"config.yaml", "meta.json", "code.txt", "code.diff"})  # the files of a run before its start


class Description(NamedTuple):
    """The description of a run, from its meta.json."""

    name: str  # readable name; the id if meta.json has none
    axes: dict[str, Any]  # axis -> value, for the first file that asked for it
    experiments: tuple[str, ...]  # files that ask for it, including searches
    searches: tuple[str, ...]  # searches that ask for it
    config_sha256: str  # hash of its config, "" if not recorded
    needs: str | None  # key of the preparation that it needs (for example a base model), or None


def states(home: Home, ids: Iterable[str] | None = None) -> dict[str, RunState]:
    """Return id -> state, as `run_state` returns it, in this order (default: all run directories, by id)."""
    wanted = home.run_ids() if ids is None else list(dict.fromkeys(ids))
    if len(wanted) <= FEW:
        return {run_id: run_state(home.run(run_id)) for run_id in wanted}
    all_present = set(wanted if ids is None else home.run_ids())
    present = [run_id for run_id in wanted if run_id in all_present]
    read_ids = present if 2 * len(present) < len(all_present) else None  # all rows are faster than half of them by id
    results = Remembered(home, "results", _result_columns, read_ids)
    metas: Remembered | None = None
    standing = dict.fromkeys(wanted, RunState(RunStatus.MISSING))
    submitted = newest_records(home)
    for run_id, mark in zip(present, _stamps_of(home, present, "result.json"), strict=True):
        columns = results.get(run_id, mark)
        if columns is not None:
            standing[run_id] = done_state(columns)
        elif run_id not in submitted and _is_untouched(paths := home.run(run_id)):
            metas = metas or Remembered(home, "metas", _meta_columns, read_ids)
            meta = metas.get(run_id, stamp(paths.meta))
            standing[run_id] = RunState(RunStatus.MISSING, iterations=None if meta is None else meta[-1])
        else:
            standing[run_id] = run_state(home.run(run_id))
    for remembered in (results, metas):
        if remembered is not None:
            remembered.save()
    removed = results.gone(all_present) if read_ids is None else []
    if len(removed) >= SAVED_FROM:
        forget_rows(home, removed)
    return standing


def descriptions(home: Home, ids: Iterable[str]) -> dict[str, Description]:
    """Return id -> description, in this order. Without a readable meta.json, `name` is the id, all else is empty."""
    wanted = list(dict.fromkeys(ids))
    metas = Remembered(home, "metas", _meta_columns, wanted)
    described = {}
    files: dict[str, tuple[str, ...]] = {}  # parsed once: most runs have the same files
    for run_id, mark in zip(wanted, _stamps_of(home, wanted, "meta.json"), strict=True):
        columns = metas.get(run_id, mark)
        name, axes, experiments, searches, config, needs, _ = columns or (run_id, "{}", "[]", "[]", "", None, None)
        for names in (experiments, searches):
            if names not in files:
                files[names] = tuple(json.loads(names))
        described[run_id] = Description(name, json.loads(axes), files[experiments], files[searches], config, needs)
    metas.save()
    return described


def _stamps_of(home: Home, ids: Sequence[str], file: str) -> list[str | None]:
    """Return the stamp of the file of this name in each run's directory."""
    return stamps([f"{home.run_folder(run_id)}/{file}" for run_id in ids])


def _is_untouched(paths: RunPaths) -> bool:
    """Return True if the directory has only the files it was created with: then the run was never started."""
    try:
        return UNTOUCHED.issuperset(os.listdir(paths.root))
    except OSError:
        return False


def _result_columns(paths: RunPaths) -> Columns | None:
    result = read_result(paths)
    return None if result is None else facts_of_done(result)


def _meta_columns(paths: RunPaths) -> Columns | None:
    meta = load_meta(paths)
    if meta is None:
        return None
    needs = meta.get("prepare")
    return (
        str(meta.get("name", paths.id)),
        json.dumps(meta.get("axes") or {}),
        json.dumps(meta.get("experiments") or []),
        json.dumps(list(meta.get("studies") or {})),
        str(meta.get("config_sha256") or ""),
        str(needs[0]) if needs else None,
        meta.get("iterations"),
    )
