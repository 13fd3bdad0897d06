"""Reuse the printed report of a finished sweep. Decided in milliseconds, without MLflow, pandas or the trainer.

A note beside the report keeps the printed text and a digest of everything the report was made from. The text is
reused only if all of this is unchanged:

    the experiment (runs, axes, report, claims, the paper's numbers, overrides) and the published plug-ins,
    every file of code that was loaded when the report was made (builders, checks, plat itself) and the Python that
    ran it; files that a builder reads are not tracked,
    the runs' results, the runs and the file's own run in the store, the files of the report,
    the manifest of the bundle with reference results, which has the hashes of its other files,
    and the verdicts of the reference results.

A run without a result invalidates the note. With a store other than SQLite nothing is remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.plain_files import read_json_value
from plat.plugins.loading import groups, published
from plat.store.bundle.format import MANIFEST
from plat.store.disk import durable
from plat.store.home import Home
from plat.user_code import PYTHON, SITE

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment


def recall(home: Home, uri: str, experiment: Experiment, layout: str) -> str | None:
    """Return the text printed earlier in this `layout` (width and colour); None if there is none or it is outdated."""
    try:
        note = read_json_value(_note(home, experiment))
        if note["layout"] != layout or _stamps(note["files"]) != note["stamps"]:
            return None
        printed = note["printed"]
        return printed if note["digest"] == digest(home, uri, experiment) and isinstance(printed, str) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(home: Home, uri: str, experiment: Experiment, layout: str, printed: str, files: Iterable[Path]) -> None:
    """Store the printed text, unless a run has no result or the store cannot be read quickly.

    `files` are the files of the report. If one of them or of the loaded code changes, the text is not valid any more.
    """
    made_from = digest(home, uri, experiment)
    if made_from is None:
        return
    paths = sorted({*map(str, files), *_loaded_code()})
    note = {"digest": made_from, "layout": layout, "printed": printed, "files": paths, "stamps": _stamps(paths)}
    with contextlib.suppress(OSError):  # a folder in its place or a full disk: the report is made again next time
        durable.write(_note(home, experiment), json.dumps(note).encode())


def forget(home: Home) -> None:
    """Delete all notes of this home. Call it when values in the store changed, because no digest shows that."""
    for note in home.reports.glob(".*.json"):
        with contextlib.suppress(OSError):
            note.unlink()


def _note(home: Home, experiment: Experiment) -> Path:
    return home.reports / f".{experiment.report_name}.json"


def digest(home: Home, uri: str, experiment: Experiment) -> str | None:
    """Return a hash of everything the report is made from; None if a run has no result or the store is not SQLite."""
    results = _stamps(home.run(run.id).result for run in experiment.runs)
    stored = _stored(home, uri, experiment)
    if stored is None or None in results:
        return None
    facts: dict[str, Any] = {
        "experiment": {
            field.name: getattr(experiment, field.name)
            for field in fields(experiment)
            if field.name not in ("runs", "changes")
        },
        "changes": repr(experiment.changes),  # its keys are labels, which JSON cannot sort
        "runs": [(run.id, run.name, run.axes) for run in experiment.runs],
        "results": results,
        "configs": _stamps(home.run(run.id).config for run in experiment.runs),
        "store": [uri, stored],
        "plugins": _plugins(),
        "reference": _stamps([folder / MANIFEST]) if (folder := experiment.reference_folder) else None,
        "verdicts": _stamps(experiment.path.absolute().parent / folder / "verdicts.json" for folder in (".", "..")),
        "python": [sys.prefix, sys.version],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _stamps(paths: Iterable[str | Path]) -> list[list[int] | None]:
    """Return [size, modification time in ns] of each file; None for a missing file."""
    stamps: list[list[int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
            stamps.append([status.st_size, status.st_mtime_ns])
        except OSError:
            stamps.append(None)
    return stamps


def _loaded_code() -> set[str]:
    """Return the files of all modules that this process has loaded, except Python's own."""
    files = {str(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    return {os.path.abspath(file) for file in files if not file.startswith(PYTHON) or file.startswith(SITE)}


def _plugins() -> list[tuple[str, str, str, str, str]]:
    """Return group, name, target, version and package path of every plug-in: another copy may draw another report."""
    from importlib.util import find_spec

    packages = {point.module.partition(".")[0] for group in groups() for point in published(group).values()}
    places = {package: str(spec.origin) if (spec := find_spec(package)) else "" for package in packages}
    return sorted(
        (group, name, point.value, point.dist.version if point.dist else "", places[point.module.partition(".")[0]])
        for group in groups()
        for name, point in published(group).items()
    )


def _stored(home: Home, uri: str, experiment: Experiment) -> list[Any] | None:
    """Return the stored runs and the logged report; None without SQLite, or if a run is missing, damaged or deleted."""
    from plat.store.mlflow.run_record import DAMAGED
    from plat.store.mlflow.sqlite_file import has_content
    from plat.store.mlflow.stored_runs import StoredList
    from plat.store.mlflow.uri import sqlite_path

    path = sqlite_path(uri)
    if path is None or not has_content(path):
        return None
    listed = StoredList(home, uri)
    runs = [listed.runs.get(run.id) for run in experiment.runs]
    if any(run is None or not run.measured or run.deleted or run.outcome == DAMAGED for run in runs):
        return None  # every sweep reports such a run
    facts = sorted([run.id, run.mlflow_id, run.measured, run.outcome] for run in runs if run is not None)
    return [os.stat(path).st_ino, facts, listed.reports.get(experiment.report_name)]
