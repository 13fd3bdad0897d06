"""A bundle -> runs of this home, and from there into its store (`plat import`).

The run directories are made again and then imported like any others, so that every verb takes the runs for what they
are: done. There is one way into MLflow.

Promised: everything is checked before anything is changed. The whole bundle is refused when one of its files is
damaged, or when one of its runs is here, or in the store, with other content; the error names the runs and what
differs. A run appears in the home whole, by a rename; after a kill in between, the same command brings the rest.
Importing a bundle again, or two bundles that share runs, changes nothing that is there.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError, HomeError
from plat.outcomes import is_failure, is_result
from plat.store.bundle.format import Bundle, read_bundle
from plat.store.bundle.run import BundledRun, config_in, config_of, differences, read_run, write_run
from plat.store.durable import fsync_folder, locked, to_checked_json, write
from plat.store.home import Home, RunPaths
from plat.store.mlflow.backend import Backend, Known, conflict
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.importer import ImportReport, import_lock, import_runs
from plat.store.mlflow.record import read_record
from plat.store.run_directory.files import read_meta, recomputed_id
from plat.store.run_directory.history import Metric, Table
from plat.store.run_directory.state import run_state
from plat.store.run_directory.types import (
    ATTEMPT_META,
    META,
    OUTCOME,
    RESULT,
    is_attempt_number,
    is_time,
    wrong_type,
)
from plat.text import forbidden_character

if TYPE_CHECKING:
    import pyarrow

SCRATCH = ".tmp-bundle"  # in the home; used under the import lock, so an old one is of an import that was killed
SHOWN = 5  # conflicts named in an error
_RUN_ID = re.compile(r"[0-9a-f]{8,64}")
_AGAIN = "export it again, and copy it again"
_NO_PLACE = "mend the permissions or free some disk space, and give the same command again; nothing was imported"


@dataclass
class BundleReport:
    """What an import did: ids of runs that are `new` here, how many were here already, and what the store said."""

    new: list[str] = field(default_factory=list)
    present: int = 0
    stored: ImportReport = field(default_factory=ImportReport)


def import_bundle(home: Home, uri: str, folder: Path) -> BundleReport:
    """Bring the runs of a bundle into this home and its store.

    BundleError when the bundle is damaged or does not fit what is here; HomeError and StoreError when the home or the
    store cannot be used. In each case nothing was imported.
    """
    runs = runs_of(read_bundle(folder), folder)
    home.create()
    report = BundleReport()
    with import_lock(home), closing(open_backend(home, uri)) as backend:
        new = _new_runs(home, runs, folder)
        with _staged(home, new) as staged:
            _check_staged(staged, {run.id: run for run in new}, folder)
            _check_store(backend, staged, folder)
            for paths in staged:
                _move(paths, home.run(paths.id))
                report.new.append(paths.id)
        fsync_folder(home.runs)
        for run in runs:
            _note_experiments(home, home.run(run.id), run.meta.get("experiments", []))
    report.present = len(runs) - len(new)
    report.stored = import_runs(home, uri, runs=[home.run(run.id) for run in runs])
    return report


def runs_of(bundle: Bundle, folder: Path) -> list[BundledRun]:
    """The runs of a bundle; BundleError when a row cannot be a run."""
    rows: dict[str, dict[str, list[Any]]] = {}
    for kind in ("metrics", "tables"):
        try:
            rows[kind] = _by_run(bundle.tables[kind], _MAKERS[kind])
        except (ValueError, TypeError, RecursionError) as error:
            raise BundleError(
                f"the {kind} of the bundle cannot be read: {error}", where=str(folder), mend=_AGAIN
            ) from error
    runs: dict[str, BundledRun] = {}
    for row in bundle.tables["runs"].to_pylist():
        try:
            run = _run(row, rows["metrics"], rows["tables"])
            if run.id in runs:
                raise ValueError("it is there twice")
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise BundleError(
                f"run {row.get('run_id')!r} of the bundle cannot be read: {error}", where=str(folder), mend=_AGAIN
            ) from error
        runs[run.id] = run
    strangers = sorted({*rows["metrics"], *rows["tables"]} - runs.keys())
    if strangers:
        raise BundleError(
            f"the bundle has values of a run that it does not have: {strangers[0]!r}", where=str(folder), mend=_AGAIN
        )
    return list(runs.values())


def _run(row: dict[str, Any], metrics: dict[str, list[Metric]], tables: dict[str, list[Table]]) -> BundledRun:
    """The run of a row, with every value of the type that plat writes; ValueError says what is not."""
    run_id = str(row["run_id"])
    run = BundledRun(
        meta=_object(row["meta"]),
        config=row["config"],
        code=row["code"],
        diff=row["diff"],
        diff_sha256=row["code_diff_sha256"],
        result=None if row["result"] is None else _object(row["result"]),
        attempt=row["attempt"],
        attempt_meta=_object(row["attempt_meta"]),
        attempt_outcome=_object(row["attempt_outcome"]),
        metrics=metrics.get(run_id, []),
        tables=tables.get(run_id, []),
    )
    if not _RUN_ID.fullmatch(run_id) or run.id != run_id:
        raise ValueError("its id is not a run's")
    _check_types(run)
    if run.meta["config_sha256"] != config_of(run):
        raise ValueError("its config is not the one its meta.json names")
    if recomputed_id(run.meta, config_in(run)) not in (None, run.id):
        raise ValueError("its config, versions and base model are not those that its id stands for: it was edited")
    for kind, rows in (("metric", run.metrics), ("table", run.tables)):
        if len(rows) != row[f"{kind}_rows"]:
            raise ValueError(f"it has {len(rows)} rows of {kind}s instead of {row[f'{kind}_rows']}")
    return run


def _check_types(run: BundledRun) -> None:
    """ValueError unless all that is written into the run's JSON files is of its type, and complete."""
    parts = (
        ("meta.json", run.meta, META, ("id", "name", "trainer", "axes", "experiments", "config_sha256")),
        ("result.json", run.result or {}, RESULT, ("outcome", "attempt", "time") if run.result is not None else ()),
        ("attempt.json", run.attempt_meta, ATTEMPT_META, ()),
        ("outcome.json", run.attempt_outcome, OUTCOME, ("outcome",)),
    )
    for name, values, types, needed in parts:
        missing = [key for key in needed if key not in values]
        problem = f"it has no {missing[0]}" if missing else wrong_type(values, types)
        if problem:
            raise ValueError(f"its {name} is damaged: {problem}")
    texts = [run.meta.get(key) for key in ("name", "trainer", "paper", "scale")] + run.meta["experiments"]
    for text in [*texts, *run.meta["axes"], *run.meta["axes"].values()]:
        if isinstance(text, str) and (forbidden_character(text) or "\n" in text):
            raise ValueError(f"its meta.json is damaged: {text[:40]!r} is no name")
    if not is_attempt_number(run.attempt):
        raise ValueError("the number of its attempt is not one")
    if run.result is None:
        if not is_failure(run.outcome):
            raise ValueError("it has neither a result nor failed")
    elif not is_result(run.outcome) or run.result["attempt"] != run.attempt:
        raise ValueError("its result is not that of its attempt")


def _object(text: str) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is expected")
    return value


def _by_run(table: pyarrow.Table, make: Callable[[list[Any]], Any]) -> dict[str, list[Any]]:
    """What `make` gives for each row without its run id, by run id, in the order of the rows."""
    rows: dict[str, list[Any]] = {}
    run_ids, *columns = (column.to_pylist() for column in table.columns)
    for run_id, *row in zip(run_ids, *columns, strict=True):
        if run_id is None or None in row:
            raise ValueError(f"a value of run {run_id!r} is missing")
        rows.setdefault(run_id, []).append(make(row))
    for run_id, items in rows.items():
        if len({item[:2] for item in items}) < len(items):
            raise ValueError(f"run {run_id!r} has two values for one name and step")
    return rows


def _metric(row: list[Any]) -> Metric:
    metric = Metric(*row)
    if not is_time(metric.time):
        raise ValueError(f"{metric.key} at step {metric.step} has no time")
    return metric


def _table(row: list[Any]) -> Table:
    name, step, time, data = row
    if not is_time(time):
        raise ValueError(f"table {name} at step {step} has no time")
    return Table(name, step, json.loads(data), time)


_MAKERS: dict[str, Callable[[list[Any]], Any]] = {"metrics": _metric, "tables": _table}


# -- checking ---------------------------------------------------------------------------------------------------------


def _new_runs(home: Home, runs: Sequence[BundledRun], folder: Path) -> list[BundledRun]:
    """The runs that are to be made here; BundleError when some are here with other content, or unfinished."""
    new, conflicts = [], []
    for run in runs:
        paths = home.run(run.id)
        state = run_state(paths).state
        if state == "missing" and not paths.attempts():
            new.append(run)
        elif run.result is None:
            continue  # a failure is no result: whatever is here says more
        elif state == "done":
            own = read_run(paths)
            lines = differences(own, run) if own else ["its directory cannot be read"]
            conflicts += [f"{run.name}: {'; '.join(lines)}"] if lines else []
        else:
            conflicts.append(f"{run.name}: it is {state} here (finish it with `plat sweep`, or remove {paths.root})")
    _refuse(conflicts, len(runs), "in this home", folder)
    return new


def _check_staged(staged: Sequence[RunPaths], runs: Mapping[str, BundledRun], folder: Path) -> None:
    """BundleError unless each staged directory is the whole run that it should be, as every verb will read it."""
    for paths in staged:
        record = read_record(paths)
        problem = record.damage if record else "its meta.json or config.yaml cannot be read"
        wanted = "failed" if runs[paths.id].result is None else "done"
        if not problem and run_state(paths).state != wanted:
            problem = f"it would not be {wanted} here"
        if problem:
            raise BundleError(f"run {paths.id!r} of the bundle is damaged: {problem}", where=str(folder), mend=_AGAIN)


def _check_store(backend: Backend, staged: Sequence[RunPaths], folder: Path) -> None:
    """BundleError when the store holds one of these runs with other content, although the home does not."""
    known: dict[str, Known] = backend.known([paths.id for paths in staged])
    conflicts = []
    for paths in staged:
        have = known.get(paths.id)
        if have is None or have.deleted:
            continue
        record = read_record(paths)
        difference = conflict(record, backend.stored(have)) if record else "it cannot be read"
        if difference:
            conflicts.append(f"{paths.id}: {difference}")
    _refuse(conflicts, len(staged), "in the store", folder)


def _refuse(conflicts: Sequence[str], total: int, where: str, folder: Path) -> None:
    if not conflicts:
        return
    shown = [f"\n       {line}" for line in conflicts[:SHOWN]]
    rest = f"\n       and {len(conflicts) - SHOWN} more" if len(conflicts) > SHOWN else ""
    raise BundleError(
        f"{len(conflicts)} of the bundle's {total} runs are {where} with other content; nothing was imported:"
        + "".join(shown)
        + rest,
        where=str(folder),
        mend="import the bundle into a home of its own, with --home DIR",
    )


# -- making -----------------------------------------------------------------------------------------------------------


@contextmanager
def _staged(home: Home, runs: Sequence[BundledRun]) -> Iterator[list[RunPaths]]:
    """Run directories of these runs beside `runs/`, gone again afterwards unless they were moved."""
    scratch = home.root / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        staged = [RunPaths(scratch / run.id) for run in runs]
        try:
            for run, paths in zip(runs, staged, strict=True):
                write_run(run, paths)
        except OSError as error:
            raise HomeError(
                f"the runs of the bundle could not be written: {error.strerror or error}",
                where=str(home.root),
                mend=_NO_PLACE,
            ) from error
        yield staged
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _move(staged: RunPaths, target: RunPaths) -> None:
    """Put a staged run in its place, for a directory there in which nothing was ever started."""
    try:
        if target.root.exists():
            os.rename(target.root, staged.root.with_name(f"{staged.id}.replaced"))
        os.rename(staged.root, target.root)
    except OSError as error:
        raise HomeError(
            f"a run of the bundle could not be put in its place: {error.strerror or error}",
            where=str(target.root),
            mend="give the same command again; runs that are in their place already stay",
        ) from error


def _note_experiments(home: Home, paths: RunPaths, names: Sequence[str]) -> None:
    """Add experiments to those that asked for a run that was here already."""
    with locked(home.meta_lock):
        meta = read_meta(paths)
        if not set(names) <= set(meta["experiments"]):
            meta["experiments"] = list(dict.fromkeys([*meta["experiments"], *names]))
            write(paths.meta, to_checked_json(meta))
