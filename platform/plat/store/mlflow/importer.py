"""Import run directories into MLflow; `import_runs` lists what is promised."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from plat.errors import StoreError
from plat.store.disk.durable import locked
from plat.store.home import Home
from plat.store.mlflow.backend import SIGNATURE, Backend, Deleted, DeletedExperiment, FileInfo, Known, Stored
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.digest import is_changed_in_store
from plat.store.mlflow.relocation import is_moved
from plat.store.mlflow.run_record import DAMAGED, RunRecord, has_begun, read_record, signature, without_history
from plat.store.mlflow.spelling import clean_key
from plat.store.mlflow.sqlite_connection import connect_readonly, has_content
from plat.store.mlflow.sqlite_rows import read_known
from plat.store.mlflow.store_errors import KEPT, store_errors
from plat.store.mlflow.uri import gc_command, sqlite_path
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import meta_damage
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

T = TypeVar("T")
LOCK_SECONDS = 120.0  # how long to wait for another importer


class Follow(Protocol):
    """An iteration over runs that may show progress; `doing` describes the step."""

    def __call__(self, runs: Sequence[T], doing: str, /) -> Iterable[T]: ...


@dataclass
class ImportReport:
    """The result of an import into the store at `uri`. Lists have plat run ids, except `in_bin`."""

    uri: str = ""
    imported: list[str] = field(default_factory=list)  # new or updated
    unchanged: int = 0
    deleted: list[str] = field(default_factory=list)  # in MLflow's bin, left there
    in_bin: list[str] = field(default_factory=list)  # MLflow ids of the deleted runs
    differing: list[str] = field(default_factory=list)  # redone with other values; the stored values are kept
    changed: list[str] = field(default_factory=list)  # changed in the store since the import; left unchanged
    unreadable: list[str] = field(default_factory=list)  # meta.json or config.yaml is missing or damaged
    damaged: dict[str, Damage] = field(default_factory=dict)  # run id -> problem of its history (file and line)

    @property
    def exit_code(self) -> int:
        """Return 3 if a run is damaged or unreadable, else 0."""
        return 3 if self.damaged or self.unreadable else 0

    def warnings(self) -> list[str]:
        """Return lines that name runs that were not imported or are damaged, at most five of each kind; [] if none."""
        kinds = (
            (self.deleted, "deleted in MLflow and left deleted (restore them in MLflow, or delete them for good)"),
            (
                self.differing,
                "redone with other values; MLflow keeps the first (to replace them, delete them in MLflow; then "
                "`plat sync` prints the next command)",
            ),
            (
                self.changed,
                "changed in MLflow since the import (`plat doctor --fix` restores a SQLite store from the run "
                "directories; on a server, delete them in MLflow; then `plat sync` prints the next command)",
            ),
            (
                self.unreadable,
                "without a readable meta.json and config.yaml, not imported (`plat sweep` of the experiment file "
                "writes them again)",
            ),
        )
        lines = [f"{counted(len(ids), 'run')} {state}: {', '.join(ids[:5])}" for ids, state in kinds if ids]
        if self.in_bin:
            command = gc_command(self.uri, self.in_bin)
            lines.insert(1, f"to delete them from MLflow for good and import them again: {command}")
        lines += [
            f"run {run} is damaged: {problem} ({problem.fix}; what MLflow already holds stays)"
            for run, problem in list(self.damaged.items())[:5]
        ]
        unnamed = len(self.damaged) - 5
        return lines + ([f"and {unnamed} more {are(unnamed)} damaged"] if unnamed > 0 else [])


def as_they_are(runs: Sequence[T], doing: str, /) -> Iterable[T]:
    """Return the runs without showing progress."""
    return runs


def import_runs(
    home: Home,
    uri: str,
    experiments: Sequence[Experiment] = (),
    runs: Iterable[RunPaths] | None = None,
    timeout: float | None = None,
    *,
    follow: Follow = as_they_are,
) -> ImportReport:
    """Import these run directories (default: all of the home) into the store at `uri`.

    experiments  parsed files: their runs are tagged with them, and the MLflow run of each file gets its title
    timeout      seconds to wait for another importer and for another writer of a SQLite store; None: the defaults
    follow       iterates over the runs and may show progress

    - Importing twice, in any order, from several processes or after a kill gives the result of one import. The first
      value of a (run, key, step) wins.
    - Raises StoreError if the store cannot be used, HomeError as `import_lock`. The run directories stay complete, and
      the next import catches up, even if the whole store was removed.
    - Runs deleted by the user in MLflow stay deleted and are reported. After a restore in MLflow the next import
      updates them; after `mlflow gc` it imports existing directories afresh. An archived run that is done again is
      imported as a new MLflow run.
    - Runs redone with other values and runs changed in the store are left unchanged and reported.
    - Runs that have not begun (queued by a scheduler) are skipped.
    - A damaged run that the store does not have in full is stored without its history. If it is done, its outcome in
      the store is "damaged". Every import reports it until it is fixed.
    - A done run gets a digest (`plat.store.mlflow.digest`), by which a reader detects later changes in the store.
    - If nothing has changed, an import into a SQLite store reads one fingerprint per run and takes no lock.
    """
    home.checked()
    if runs is None:
        folders = [home.run_folder(run_id) for run_id in home.run_ids()]
    else:
        folders = [str(run.root) for run in runs]
    wanted: dict[str, list[str]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            wanted.setdefault(run.id, []).append(clean_key(experiment.name))
    report = ImportReport(uri)
    path = sqlite_path(uri)
    may_write = os.access(home.root, os.W_OK) and (path is None or not path.exists() or os.access(path, os.W_OK))
    changed = _changed(folders, wanted, _peek(uri, timeout), report, digests=may_write)
    if not changed and not is_moved(uri):
        return report
    files = {clean_key(experiment.name): file_info(experiment) for experiment in experiments}
    with import_lock(home, timeout), closing(open_backend(home, uri, timeout)) as backend:
        _import(backend, changed, wanted, files, report, follow)
    return report


@contextmanager
def import_lock(home: Home, timeout: float | None = None) -> Iterator[None]:
    """Hold the lock that all writers to a store of this home share.

    Raises StoreError if another process holds it for `timeout` seconds (default: LOCK_SECONDS), and HomeError if the
    home has another format or cannot be written.
    """
    home.checked()
    seconds = LOCK_SECONDS if timeout is None else timeout
    busy = StoreError(
        f"another import has been running for {seconds:.0f} s",
        where=str(home.import_lock),
        fix=f"wait for it or end that process; {KEPT}",
    )
    with locked(home.import_lock, seconds, busy):
        yield


def file_info(experiment: Experiment) -> FileInfo:
    return FileInfo(clean_key(experiment.name), experiment.title, experiment.source, experiment.paper)


def _peek(uri: str, timeout: float | None = None) -> dict[str, Known]:
    """Return the runs known to a SQLite store, read without a lock; {} for other stores, which are read under it."""
    path = sqlite_path(uri)
    if path is None or not has_content(path):
        return {}
    with store_errors(uri), closing(connect_readonly(path, timeout)) as connection:
        return read_known(connection)


def _changed(
    folders: Iterable[str],
    wanted: Mapping[str, list[str]],
    known: Mapping[str, Known],
    report: ImportReport,
    *,
    digests: bool = True,
) -> list[str]:
    """Return the run directories that differ from the store; report the others.

    With `digests`, a stored done run that has lost its digest counts as different: it is written again."""
    changed = []
    for folder in folders:
        run_id = os.path.basename(folder)
        mark, have = signature(folder), known.get(run_id)
        if mark is None:
            report.unreadable += [run_id] if os.path.isdir(folder) else []
        elif have is None and not has_begun(RunPaths(Path(folder))):
            continue
        elif have and have.deleted:
            report.deleted.append(run_id)
            report.in_bin.append(have.mlflow_id)
        elif (
            have
            and have.signature == mark
            and (have.has_digest or not (digests and have.whole))
            and have.files.issuperset(wanted.get(run_id, ()))
        ):
            report.unchanged += 1
        else:
            changed.append(folder)
    return changed


def _import(
    backend: Backend,
    folders: Sequence[str],
    wanted: Mapping[str, list[str]],
    files: Mapping[str, FileInfo],
    report: ImportReport,
    follow: Follow,
) -> None:
    known = backend.known([os.path.basename(folder) for folder in folders])
    backend.drop_twins()
    touched: dict[tuple[str, str], str | None] = {}  # (MLflow experiment, file) -> MLflow id of the file's run
    # compared again under the lock: another importer may have been faster
    for folder in follow(_changed(folders, wanted, known, report), "copying runs into the store"):
        run = RunPaths(Path(folder))
        record = read_record(run, wanted.get(run.id, ()))
        if record is None:
            if (damage := meta_damage(run)) and damage.foreign:
                report.damaged[run.id] = damage
            else:
                report.unreadable.append(run.id)
            continue
        have = known.get(run.id)
        if record.damage:
            report.damaged[run.id] = record.damage
            if have and have.whole:
                if have.files.issuperset(record.files):
                    continue
                record = _as_stored(record, backend.stored(have))
            else:
                record = without_history(record)
        try:
            for file in record.files:
                if (record.experiment, file) not in touched:
                    touched[record.experiment, file] = _file_run(backend, record, files.get(file, FileInfo(file)))
            done = backend.write(record, have)
            if not done:
                is_changed = have is not None and is_changed_in_store(record, backend.stored(have).tags)
                (report.changed if is_changed else report.differing).append(run.id)
            elif run.id not in report.damaged:
                report.imported.append(run.id)
        except Deleted:
            report.deleted.append(run.id)
    for (experiment, file), own in touched.items():
        if own is not None:
            backend.settle(experiment, file)


def _as_stored(record: RunRecord, stored: Stored) -> RunRecord:
    """Return the record of a run that is damaged here and complete in the store: the stored content, plus the tags of
    the files that ask for the run."""
    kept = {key: value for key, value in stored.tags.items() if key.startswith("plat.") and key != SIGNATURE}
    asking = {key: value for key, value in record.tags.items() if key.startswith("plat.in.")}
    return replace(record, signature=DAMAGED, status="FINISHED", tags=kept | asking, points=[], params={}, artifacts={})


def _file_run(backend: Backend, record: RunRecord, file: FileInfo) -> str | None:
    """Return the MLflow id of the file's run, None if the user deleted it."""
    try:
        return backend.file_run(record.experiment, file)
    except DeletedExperiment:
        raise
    except Deleted:
        return None
