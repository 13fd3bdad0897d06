"""Where the runs of a home stand, with one `stat` for each finished run instead of its files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plat.store.home import Home, RunPaths
from plat.store.index.database import forget_rows
from plat.store.index.remembered import SAVED_FROM, Columns, Remembered
from plat.store.index.stamp import stamps
from plat.store.run_directory.files import load_meta, read_result
from plat.store.run_directory.state import RunState, done_state, run_state

FEW = 100  # runs that are read from their directories, without an index
UNTOUCHED = frozenset({"config.yaml", "meta.json", "code.txt", "code.diff"})  # all that a run has before it is started


class RunEntry(NamedTuple):
    """A run of a home and where it stands.

    name         its readable name, or its id when meta.json does not say
    axes         axis -> value, for the file that asked first
    experiments  the files that ask for it
    trainer      its name, "" when meta.json does not say
    needs        the key of the preparation (a base model, say) that it needs, or None
    wall         seconds that all of its attempts took, None before it is done
    """

    id: str
    name: str
    axes: dict[str, Any]
    experiments: tuple[str, ...]
    trainer: str
    needs: str | None
    state: RunState
    wall: float | None


def states(home: Home, ids: Iterable[str]) -> dict[str, RunState]:
    """Where these runs stand, in this order: of each what `run_state` says of its directory."""
    wanted = list(dict.fromkeys(ids))
    if len(wanted) <= FEW:
        return {run_id: run_state(home.run(run_id)) for run_id in wanted}
    present = set(home.run_ids())
    reader = _Reader(home, [run_id for run_id in wanted if run_id in present], len(present))
    standing = {run_id: reader.state(run_id) if run_id in present else RunState("missing") for run_id in wanted}
    reader.save()
    return standing


def entries(home: Home, ids: Iterable[str] | None = None) -> list[RunEntry]:
    """These runs (default: every run that has a directory in this home, by id)."""
    present = home.run_ids()
    wanted = present if ids is None else list(dict.fromkeys(ids))
    reader = _Reader(home, wanted, len(present))
    listed = [reader.entry(run_id) for run_id in wanted]
    reader.save()
    return listed


class _Reader:
    """Reads some of the runs of a home that has `total`."""

    def __init__(self, home: Home, ids: Sequence[str], total: int) -> None:
        self._home = home
        self._ids = ids
        self._is_all = len(ids) == total
        self._roots = {run_id: home.layout.place(run_id) for run_id in ids}
        self._result_marks = self._stamps("result.json")
        self._meta_marks: dict[str, str | None] | None = None
        asked_for = list(ids) if 2 * len(ids) < total else None  # of most runs, all rows are read at once
        self._results = Remembered(home, "results", asked_for)
        self._asked_for = asked_for
        self._metas: Remembered | None = None
        self._files: dict[str, tuple[str, ...]] = {}

    def state(self, run_id: str) -> RunState:
        return self._state(run_id, self._result(run_id))

    def _state(self, run_id: str, result: Columns | None) -> RunState:
        if result is not None:
            outcome, step, success, iterations, attempt, ended, _, reason = result
            return done_state(outcome, step, success, iterations, attempt, ended, reason)
        if self._is_untouched(run_id):
            meta = self._meta(run_id)
            return RunState("missing", iterations=None if meta is None else meta[-1])
        return run_state(self._paths(run_id))

    def entry(self, run_id: str) -> RunEntry:
        result = self._result(run_id)
        name, axes, files, trainer, needs, _ = self._meta(run_id) or (run_id, "{}", "[]", "", None, None)
        if files not in self._files:  # most runs are asked for by the same files
            self._files[files] = tuple(json.loads(files))
        wall = None if result is None else result[6]
        state = self._state(run_id, result)
        return RunEntry(run_id, name, json.loads(axes), self._files[files], trainer, needs, state, wall)

    def save(self) -> None:
        self._results.save()
        if self._metas is not None:
            self._metas.save()
        if self._is_all:
            gone = self._results.gone(self._roots)
            if len(gone) >= SAVED_FROM:
                forget_rows(self._home, gone)

    def _paths(self, run_id: str) -> RunPaths:
        return RunPaths(Path(self._roots[run_id]))

    def _stamps(self, name: str) -> dict[str, str | None]:
        return dict(zip(self._ids, stamps([f"{self._roots[run_id]}/{name}" for run_id in self._ids]), strict=True))

    def _result(self, run_id: str) -> Columns | None:
        """The columns of its result.json; None when it has none that is whole."""
        mark = self._result_marks[run_id]
        if mark is None:
            return None
        return self._results.get(run_id, mark, lambda: _result_columns(self._paths(run_id)))

    def _meta(self, run_id: str) -> Columns | None:
        """The columns of its meta.json; None when it has none that is whole."""
        if self._metas is None or self._meta_marks is None:
            self._metas = Remembered(self._home, "metas", self._asked_for)
            self._meta_marks = self._stamps("meta.json")
        mark = self._meta_marks[run_id]
        if mark is None:
            return None
        return self._metas.get(run_id, mark, lambda: _meta_columns(self._paths(run_id)))

    def _is_untouched(self, run_id: str) -> bool:
        """Whether the directory holds nothing that came after it was made: then the run was never started."""
        try:
            return UNTOUCHED.issuperset(os.listdir(self._roots[run_id]))
        except OSError:
            return False


def _result_columns(paths: RunPaths) -> Columns | None:
    result = read_result(paths)
    if result is None:
        return None
    facts = (result.get(key) for key in ("step", "success", "iterations"))
    return (
        result["outcome"],
        *facts,
        result.get("attempt", 0),
        result.get("time"),
        result.get("wall"),
        result.get("reason") or "",
    )


def _meta_columns(paths: RunPaths) -> Columns | None:
    meta = load_meta(paths)
    if meta is None:
        return None
    needs = meta.get("prepare")
    return (
        str(meta.get("name", paths.id)),
        json.dumps(meta.get("axes") or {}),
        json.dumps(meta.get("experiments") or []),
        str(meta.get("trainer", "")),
        str(needs[0]) if needs else None,
        meta.get("iterations"),
    )
