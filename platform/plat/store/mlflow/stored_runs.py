"""List the runs of a store, with the few tags that are read back from MLflow.

Searching takes MLflow a millisecond a run and seconds to start. So the list of a SQLite store is kept in the cache of
the home, and is valid as long as the file of the store has not changed since. It may be deleted at any time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from plat.store.disk import durable
from plat.store.home import Home
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client
from plat.store.mlflow.report_record import NOTE
from plat.store.mlflow.sqlite_file import check_file, check_place, has_content, settle, stamp
from plat.store.mlflow.store_errors import store_errors
from plat.store.mlflow.uri import sqlite_path
from plat.words.outcomes import is_result

if TYPE_CHECKING:
    from mlflow.entities import Run

FORMAT = 2  # of the list in the cache
FILES_RUNNING = "tags.`plat.kind` = 'experiment' and attributes.status = 'RUNNING'"  # MLflow's query
FEW = 5  # up to this many runs of a server are searched one by one; for more, all runs are read
MEASURED = "plat.measured"  # tag: SHA-256 of the artifact; written last, so a run without it is not stored completely
SIGNATURE = "plat.imported"  # tag: fingerprint of the run's directory at the import
ARCHIVED = "plat.archived"  # plat 0.4 had a verb that put runs into MLflow's bin with this tag
TWIN = "plat.twin"  # of a duplicate in MLflow's bin: the MLflow id of the run that was kept
WRITING = "being written since "  # start of SIGNATURE while a home writes the run into a server


class StoredRun(NamedTuple):
    """A run in the store. `deleted`: it is in MLflow's bin."""

    id: str  # of plat
    mlflow_id: str
    folder: str  # URI of its artifacts
    measured: str | None
    signature: str | None
    outcome: str | None
    files: tuple[str, ...]  # experiment files that asked for it
    deleted: bool = False

    @property
    def whole(self) -> bool:
        """Return True if the run was stored after it was done, with all of its history."""
        return self.measured is not None and is_result(self.outcome)


def stored_runs(
    home: Home, uri: str, ids: Iterable[str] | None = None, file: str | None = None
) -> dict[str, StoredRun]:
    """Return the runs of a store by plat id, also those that the user deleted; {} if a SQLite store does not exist.

    ids, file  the runs that the caller needs, or those that a file asked for: others may be left out

    Raises StoreError if the store cannot be read.
    """
    path = sqlite_path(uri)
    if path is None:
        return by_id(_search(uri, [f"tags.`plat.in.{file}` = '1'"] if file is not None else queries_for(ids)))
    if not has_content(path):
        return {}
    return StoredList(home, uri).runs


class StoredList:
    """The complete list of the runs of a SQLite store, which an importer keeps up to date while it writes.

    It also remembers a digest of each report that was logged, to log none twice, and which files' runs are RUNNING.
    """

    def __init__(self, home: Home, uri: str) -> None:
        path = sqlite_path(uri)
        assert path is not None, uri
        self._home, self._path = home, path
        name = "own" if path == home.database else sha256(str(path).encode()).hexdigest()[:16]
        self._file = home.cache / "stores" / f"{name}.json"
        self.runs: dict[str, StoredRun] = {}
        self.reports: dict[str, list[str]] = {}  # report -> digest, MLflow id of the run
        self.running: set[tuple[str, str]] = set()  # (id of an MLflow experiment, file)
        check_place(path)
        if not self._read():
            check_file(path)
            now = stamp(path)
            self.runs = by_id(_search(uri, queries_for(None)))
            self.running = running_files(_search(uri, [FILES_RUNNING]))
            self.save(now)

    def _read(self) -> bool:
        try:
            kept = durable.read_json(self._file)
            if kept is None or kept["format"] != FORMAT or kept["stamp"] != stamp(self._path):
                return False
            for row in kept["runs"]:
                run = StoredRun(*row)._replace(files=tuple(row[6]))
                self.runs[run.id] = run
            self.reports = dict(kept["reports"])
            self.running = {(str(number), str(file)) for number, file in kept["running"]}
            return True
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            self.runs = {}
            return False

    def save(self, mark: list[int] | None = None) -> None:
        """Write the list into the cache of an existing home, with the stamp of the store as it is now, or `mark`."""
        if mark is None:
            settle(self._path)
            mark = stamp(self._path)
        known = {"runs": list(self.runs.values()), "reports": self.reports, "running": sorted(self.running)}
        content = {"format": FORMAT, "stamp": mark, **known}
        if self._home.exists():
            with contextlib.suppress(OSError):  # a read-only home or a full disk: the next reader searches again
                self._file.parent.mkdir(parents=True, exist_ok=True)
                durable.write(self._file, durable.to_checked_json(content), sync=False)

    def unsettled(self) -> list[tuple[str, str]]:
        """Return (MLflow experiment, file) where the file's run is RUNNING and no other: an importer was killed."""
        busy = {file for run in self.runs.values() if run.outcome is None and not run.deleted for file in run.files}
        return sorted(item for item in self.running if item[1] not in busy)

    def forget(self) -> None:
        """Delete the list, before the store is changed: a killed process leaves none that is wrong."""
        with contextlib.suppress(OSError):
            Path(self._file).unlink(missing_ok=True)


def _search(uri: str, queries: Iterable[str]) -> list[Run]:
    """Return MLflow's runs that these queries find, deleted or not."""
    client = mlflow_client(uri)
    from mlflow.entities import ViewType

    with store_errors(uri):
        return [run for query in queries for run in find_runs(client, query, ViewType.ALL)]


def queries_for(ids: Iterable[str] | None) -> list[str]:
    """Return MLflow's queries that find the runs of these plat ids, and perhaps others."""
    wanted = None if ids is None else list(ids)
    if wanted is not None and len(wanted) <= FEW:
        return [f"tags.`plat.id` = '{plat_id}'" for plat_id in wanted]
    return ["tags.`plat.kind` = 'run'"]


def running_files(runs: Iterable[Run]) -> set[tuple[str, str]]:
    """Return (id of the MLflow experiment, file) of these runs of files, without those in MLflow's bin."""
    return {(str(run.info.experiment_id), run.data.tags.get("plat.file", "")) for run in runs if is_active(run)}


def by_id(runs: Iterable[Run]) -> dict[str, StoredRun]:
    """Return the run to use for each plat id; of duplicates, which killed importers leave on a server, one active."""
    found: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: (not is_active(run), first_kept(run)), reverse=True):
        plat_id = run.data.tags.get("plat.id")
        if plat_id and (is_active(run) or not {ARCHIVED, TWIN} & run.data.tags.keys()):
            found[plat_id] = run
    return {plat_id: as_stored(run) for plat_id, run in sorted(found.items())}


def as_stored(run: Run) -> StoredRun:
    """Build the StoredRun of a run of MLflow from its tags."""
    tags = run.data.tags
    files = tuple(sorted(key.removeprefix("plat.in.") for key in tags if key.startswith("plat.in.")))
    facts = (tags.get(MEASURED), tags.get(SIGNATURE), tags.get("plat.outcome"))
    return StoredRun(tags["plat.id"], run.info.run_id, run.info.artifact_uri, *facts, files, not is_active(run))


def is_active(run: Run) -> bool:
    """Return True if the run is not in MLflow's bin."""
    return bool(run.info.lifecycle_stage == "active")


def first_kept(run: Run) -> tuple[bool, str, int, str]:
    """Return the key by which all importers sort equal active runs. The one to keep comes first: one that is stored
    completely before others, then the one that was stored, or created, first."""
    return is_being_written(run), run.data.tags.get(SIGNATURE, ""), run.info.start_time, run.info.run_id


def is_being_written(run: Run) -> bool:
    """Return True if a home is writing the run, or was killed while it wrote."""
    return MEASURED not in run.data.tags or str(run.data.tags.get(SIGNATURE, "")).startswith(WRITING)


# Define what a file's MLflow run says of the file, and the errors of a write into MLflow's bin.


@dataclass(frozen=True)
class FileInfo:
    """The description of an experiment file in its MLflow run; title and source are None if only the name is known.

    A report under overrides has a separate MLflow run, whose name is `FILE@MARK` (`Experiment.report_name`).
    """

    name: str
    title: str | None = None
    source: str | None = None
    paper: str | None = None

    def tags(self) -> dict[str, str]:
        """Return the tags of the file's MLflow run, including the description that MLflow's interface shows."""
        tags = {"plat.kind": "experiment", "plat.file": self.name}
        if self.title is not None:
            origin = " of ".join(part for part in (self.source, self.paper) if part)
            file, _, mark = self.name.partition("@")
            source = f"`{file}.yaml`" + (f" with overrides ({mark})" if mark else "")
            tags |= {"plat.title": self.title, "mlflow.source.name": f"{file}.yaml"}
            tags[NOTE] = f"**{self.title}**\n\n" + (f"{origin} · " if origin else "") + source
            tags |= {"plat.source": self.source} if self.source else {}
        return tags


class Deleted(Exception):
    """An error: the target of a write is in MLflow's bin."""


class DeletedExperiment(Deleted):
    """An error: the MLflow experiment of a write is in MLflow's bin."""


def together(rows: Iterable[tuple[str, int | None, int | None]]) -> tuple[str, int | None, int | None]:
    """Return (status, start, end) of a group of runs from those of its runs, with times in the unit of `rows`.

    While a run is RUNNING, so is the group, and its end is None. Else it is FINISHED and ends with its last run.
    """
    rows = list(rows)
    running = any(status == "RUNNING" for status, _, _ in rows)
    start = min((start for _, start, _ in rows if start is not None), default=None)
    end = max((end for _, _, end in rows if end is not None), default=None)
    return ("RUNNING", start, None) if running else ("FINISHED", start, end)
