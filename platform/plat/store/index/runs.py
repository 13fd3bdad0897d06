"""Where the runs of a home stand, with one `stat` for each finished run instead of its files, and what they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from plat.store.home import Home
from plat.store.index.database import forget_rows
from plat.store.index.remembered import SAVED_FROM, Columns, Remembered
from plat.store.index.stamp import stamp, stamps
from plat.store.run_directory.files import load_meta, read_result
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import IN_ARCHIVE, RunState, done_state, run_state

FEW = 100  # runs that are read from their directories, without an index
UNTOUCHED = frozenset({"config.yaml", "meta.json", "code.txt", "code.diff"})  # all that a run has before it is started


class Description(NamedTuple):
    """What the meta.json of a run says.

    name           its readable name, or its id when meta.json does not say
    axes           axis -> value, for the file that asked first
    experiments    the files that ask for it, searches among them
    searches       the searches that ask for it
    config_sha256  the hash of its config, "" when meta.json does not say
    needs          the key of the preparation (a base model, say) that it needs, or None
    """

    name: str
    axes: dict[str, Any]
    experiments: tuple[str, ...]
    searches: tuple[str, ...]
    config_sha256: str
    needs: str | None


def states(home: Home, ids: Iterable[str] | None = None) -> dict[str, RunState]:
    """Where these runs stand, in this order (default: every run that has a directory in this home, by id): of each
    what `run_state` says of its directory. The reason of one that has none, and is in the archive, is IN_ARCHIVE."""
    if ids is None:
        return _states_of_directories(home, None)
    standing = _states_of_directories(home, ids)
    missing = [id for id in home.archived_ids() if id in standing and standing[id].state == "missing"]
    archived = [run_id for run_id in missing if not home.run(run_id).root.exists()]
    return standing | {run_id: RunState("missing", reason=IN_ARCHIVE) for run_id in archived}


def _states_of_directories(home: Home, ids: Iterable[str] | None) -> dict[str, RunState]:
    wanted = home.run_ids() if ids is None else list(dict.fromkeys(ids))
    if len(wanted) <= FEW:
        return {run_id: run_state(home.run(run_id)) for run_id in wanted}
    present = wanted if ids is None else home.run_ids()
    all_present = set(present)
    return _States(home, [run_id for run_id in wanted if run_id in all_present], all_present).of(wanted)


def descriptions(home: Home, ids: Iterable[str]) -> dict[str, Description]:
    """What the meta.json of each of these runs says, in this order."""
    wanted = list(dict.fromkeys(ids))
    metas = Remembered(home, "metas", _meta_columns, wanted)
    described = {}
    files: dict[str, tuple[str, ...]] = {}  # most runs are asked for by the same files
    for run_id, mark in zip(wanted, _stamps_of(home, wanted, "meta.json"), strict=True):
        columns = metas.get(run_id, mark)
        name, axes, experiments, searches, config, needs, _ = columns or (run_id, "{}", "[]", "[]", "", None, None)
        for names in (experiments, searches):
            if names not in files:
                files[names] = tuple(json.loads(names))
        described[run_id] = Description(name, json.loads(axes), files[experiments], files[searches], config, needs)
    metas.save()
    return described


class _States:
    """Reads the states of runs that have a directory in a home; `all_present` are the ids of all such runs."""

    def __init__(self, home: Home, ids: Sequence[str], all_present: set[str]) -> None:
        self._home = home
        self._ids = ids
        self._all_present = all_present
        # Of most runs of a home, all rows are read at once (None), which is quicker than asking for each.
        self._read_ids = ids if 2 * len(ids) < len(all_present) else None
        self._results = Remembered(home, "results", _result_columns, self._read_ids)
        self._metas: Remembered | None = None

    def of(self, wanted: Sequence[str]) -> dict[str, RunState]:
        """The states of these runs: of those with a directory as it says, "missing" for the others."""
        standing = dict.fromkeys(wanted, RunState("missing"))
        for run_id, mark in zip(self._ids, _stamps_of(self._home, self._ids, "result.json"), strict=True):
            columns = self._results.get(run_id, mark)
            standing[run_id] = self._without_result(run_id) if columns is None else done_state(*columns)
        self._save()
        return standing

    def _without_result(self, run_id: str) -> RunState:
        paths = self._home.run(run_id)
        if not _is_untouched(paths):
            return run_state(paths)
        if self._metas is None:
            self._metas = Remembered(self._home, "metas", _meta_columns, self._read_ids)
        meta = self._metas.get(run_id, stamp(paths.meta))
        return RunState("missing", iterations=None if meta is None else meta[-1])

    def _save(self) -> None:
        self._results.save()
        if self._metas is not None:
            self._metas.save()
        if self._read_ids is None:
            removed = self._results.gone(self._all_present)
            if len(removed) >= SAVED_FROM:
                forget_rows(self._home, removed)


def _stamps_of(home: Home, ids: Sequence[str], file: str) -> list[str | None]:
    """The stamps of the files of this name in the directories of some runs."""
    place = home.layout.place
    return stamps([f"{place(run_id)}/{file}" for run_id in ids])


def _is_untouched(paths: RunPaths) -> bool:
    """Whether the directory holds nothing that came after it was made: then the run was never started."""
    try:
        return UNTOUCHED.issuperset(os.listdir(paths.root))
    except OSError:
        return False


def _result_columns(paths: RunPaths) -> Columns | None:
    """The arguments of `done_state`."""
    result = read_result(paths)
    if result is None:
        return None
    facts = (result.get(key) for key in ("step", "success", "iterations"))
    return result["outcome"], *facts, result.get("attempt", 0), result.get("time"), result.get("reason") or ""


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
