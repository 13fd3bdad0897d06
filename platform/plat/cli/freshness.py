"""Is a finished sweep's report still the report? Answered in milliseconds, without MLflow, pandas or the trainer.

After a report was written, a note beside it keeps what it was made from (a digest) and what was printed. The next
identical sweep prints that again, provided that everything the report is made from is as it was:

    the experiment (runs, axes, report, claims, the paper's numbers), our own source files and the published plugins,
    the runs' results, the runs and the file's own run in the store, and the files of the report.

Only a SQLite store can be looked at this quickly; with any other store the note is never trusted.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.store import durable
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

QUERY = """
select i.value, o.value, r.run_uuid from tags i
join runs r on r.run_uuid = i.run_uuid and r.lifecycle_stage = 'active'
join tags f on f.run_uuid = i.run_uuid and f.key = ?
left join tags o on o.run_uuid = i.run_uuid and o.key = 'plat.outcome'
where i.key = 'plat.id'
"""
OWN_QUERY = """
select r.run_uuid from tags f
join runs r on r.run_uuid = f.run_uuid and r.lifecycle_stage = 'active'
where f.key = 'plat.file' and f.value = ?
"""


def recall(home: Home, uri: str, experiment: Experiment, look: str) -> str | None:
    """What was printed for this experiment, if it is still true; `look` is the shape of the output (width, colours)."""
    note = _note(home, experiment)
    try:
        found = json.loads(note.read_text(encoding="utf-8"))
        if found["look"] != look or _stamps(map(Path, found["files"])) != found["stamps"]:
            return None
        return found["printed"] if found["digest"] == digest(home, uri, experiment) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(home: Home, uri: str, experiment: Experiment, look: str, printed: str, files: Iterable[Path]) -> None:
    """Keep what was printed, unless the store cannot be looked at quickly."""
    found = digest(home, uri, experiment)
    if found is None:
        return
    paths = sorted(str(path) for path in files)
    note = {"digest": found, "look": look, "files": paths, "stamps": _stamps(map(Path, paths)), "printed": printed}
    durable.write(_note(home, experiment), json.dumps(note).encode())


def _note(home: Home, experiment: Experiment) -> Path:
    return home.reports / f".{experiment.name}.json"


def digest(home: Home, uri: str, experiment: Experiment) -> str | None:
    """A hash of everything the report is made from; None when that cannot be known quickly."""
    stored = _stored(uri, experiment)
    if stored is None:
        return None
    facts: dict[str, Any] = {
        "experiment": {
            field.name: getattr(experiment, field.name) for field in fields(experiment) if field.name != "runs"
        },
        "runs": [(run.id, run.name, run.axes) for run in experiment.runs],
        "results": _stamps(home.run(run.id).result for run in experiment.runs),
        "store": [uri, stored],
        "sources": _sources(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _stamps(paths: Iterable[Path]) -> list[list[int] | None]:
    """Size and time of change of each file; None for one that is not there."""
    found: list[list[int] | None] = []
    for path in paths:
        try:
            status = os.stat(path)
            found.append([status.st_size, status.st_mtime_ns])
        except OSError:
            found.append(None)
    return found


def _sources() -> list[Any]:
    """Our own files, and what is published in our entry-point groups: another version may draw another report."""
    import importlib.util
    from importlib.metadata import entry_points

    files: list[Path] = []
    for package in ("plat", "plat_analysis"):
        spec = importlib.util.find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            files += sorted(Path(folder).rglob("*.py"))
    plugins = [
        (group, point.name, point.value, point.dist.version if point.dist else "")
        for group in ("plat.trainers", "plat.reports", "plat.claims")
        for point in entry_points(group=group)
    ]
    return [_stamps(files), sorted(plugins)]


def _stored(uri: str, experiment: Experiment) -> list[Any] | None:
    """What the SQLite store holds of this experiment: per run its outcome, and the file's own runs."""
    from plat.store.mlflow_client import connect_readonly, sqlite_path
    from plat.store.record import DAMAGED

    path = sqlite_path(uri)
    if path is None or not path.is_file():
        return None
    wanted = {run.id for run in experiment.runs}
    try:
        with closing(connect_readonly(path)) as database:
            rows = database.execute(QUERY, (f"plat.in.{experiment.name}",)).fetchall()
            own = database.execute(OWN_QUERY, (experiment.name,)).fetchall()
    except sqlite3.Error:
        return None
    if any(outcome == DAMAGED for plat_id, outcome, _ in rows if plat_id in wanted):
        return None  # look again, and say again what is wrong
    return [os.stat(path).st_ino, sorted([list(map(str, row)) for row in rows if row[0] in wanted]), sorted(own)]
