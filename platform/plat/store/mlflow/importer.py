"""Run directories -> MLflow, idempotently.

Promised:
- importing twice, in any order, from several processes, or again after a kill at any moment gives what one undisturbed
  import gives; of a (run, key, step) the first value wins;
- a store that cannot be used raises StoreError and loses nothing: the run directories stay complete, and the next
  import (`plat sync`, or any importing verb) catches up; so it does when the whole store was removed;
- what the user deleted in MLflow stays deleted: such runs are neither brought back nor made anew, the report names
  them. Restoring them in MLflow brings them up to date at the next import; `mlflow gc` forgets them, and then a run
  directory that still exists is imported afresh. What `plat archive` deleted there does not count: a run that was
  archived and is done anew is imported anew;
- a run that was redone and gives other values than those recorded is left as it was recorded, and named; so is one
  that was changed in the store, with another cure;
- a run that has not begun (one that waits in the queue of a scheduler) is not in MLflow yet;
- a run whose files are damaged never passes for whole: unless the store has all of it already, it is recorded without
  its history, a done one with the outcome "damaged", and named at every import until it is mended;
- a done run has a digest of what was imported (`plat.store.mlflow.digest`), by which a reader notices later changes.

When nothing has changed, an import reads a fingerprint per run and takes no lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from plat.errors import StoreError
from plat.store.durable import locked
from plat.store.home import Home
from plat.store.mlflow.backend import SIGNATURE, Backend, Deleted, DeletedExperiment, FileInfo, Known, Stored
from plat.store.mlflow.connect import open_backend
from plat.store.mlflow.digest import is_changed_in_store
from plat.store.mlflow.record import DAMAGED, RunRecord, has_begun, read_record, signature, without_history
from plat.store.mlflow.relocation import is_moved
from plat.store.mlflow.spelling import clean_key
from plat.store.mlflow.sqlite_connection import connect_readonly
from plat.store.mlflow.store_errors import KEPT, store_errors
from plat.store.mlflow.uri import gc_command, sqlite_path
from plat.store.run_directory.files import mend_of, meta_damage
from plat.store.run_directory.own_files import is_of_other
from plat.store.run_directory.paths import RunPaths
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

T = TypeVar("T")
LOCK_SECONDS = 120.0  # how long to wait for another importer


class Follow(Protocol):
    """Goes through runs in the place of `for`, and may say how far it is in doing something to them."""

    def __call__(self, runs: Sequence[T], doing: str, /) -> Iterable[T]: ...


@dataclass
class ImportReport:
    """What an import into the store at `uri` did, by plat run id."""

    uri: str = ""
    imported: list[str] = field(default_factory=list)  # new or brought up to date
    unchanged: int = 0
    deleted: list[str] = field(default_factory=list)  # in MLflow's bin, left there
    in_bin: list[str] = field(default_factory=list)  # the MLflow ids of the deleted runs
    differing: list[str] = field(default_factory=list)  # redone with other values; the recorded ones are kept
    changed: list[str] = field(default_factory=list)  # changed in the store since it was imported; left so
    unreadable: list[str] = field(default_factory=list)  # meta.json or config.yaml is missing or damaged
    damaged: dict[str, str] = field(default_factory=dict)  # what is wrong with its history (file and line)

    @property
    def exit_code(self) -> int:
        """3 when a run was found damaged or unreadable, else 0."""
        return 3 if self.damaged or self.unreadable else 0

    def warnings(self) -> list[str]:
        """A line or two for each kind of run that was not imported."""
        kinds = (
            (self.deleted, "deleted in MLflow and left so (restore them there, or have it forget them)"),
            (
                self.differing,
                "redone with other values; MLflow keeps the first (delete them there, and `plat sync` says what then)",
            ),
            (
                self.changed,
                "changed in MLflow since the import (`plat doctor --mend` brings a SQLite store back from the run "
                "directories; on a server, delete them there, and `plat sync` says what then)",
            ),
            (
                self.unreadable,
                "without a readable meta.json and config.yaml, not imported (`plat sweep` of the experiment file "
                "writes them again)",
            ),
        )
        lines = [f"{counted(len(ids), 'run')} {state}: {', '.join(ids[:5])}" for ids, state in kinds if ids]
        if self.in_bin:
            lines.insert(1, f"to have MLflow forget them and import them afresh: {gc_command(self.uri, self.in_bin)}")
        lines += [
            f"run {run} is damaged: {problem} ({mend_of(problem)}; what MLflow already holds stays)"
            for run, problem in list(self.damaged.items())[:5]
        ]
        unnamed = len(self.damaged) - 5
        return lines + ([f"and {unnamed} more {are(unnamed)} damaged"] if unnamed > 0 else [])


def as_they_are(runs: Sequence[T], doing: str, /) -> Iterable[T]:
    """A Follow that says nothing."""
    return runs


def import_runs(
    home: Home,
    uri: str,
    experiments: Sequence[Experiment] = (),
    runs: Iterable[RunPaths] | None = None,
    timeout: float | None = None,
    *,
    with_diff: bool = False,
    follow: Follow = as_they_are,
) -> ImportReport:
    """Bring MLflow up to date with these run directories (default: all of the home).

    experiments  parsed files: they give titles to their own MLflow runs, and every run of theirs is tagged with them
    timeout      seconds to wait for another importer, and for another writer of a SQLite store; None for long
    with_diff    store the text of uncommitted code changes, too, also of runs that are up to date otherwise
    follow       goes through the runs, and may say how far it is
    """
    home.checked()
    if runs is None:
        folders = [home.layout.place(run_id) for run_id in home.run_ids()]
    else:
        folders = [str(run.root) for run in runs]
    wanted: dict[str, list[str]] = {}
    for experiment in experiments:
        for run in experiment.runs:
            wanted.setdefault(run.id, []).append(clean_key(experiment.name))
    report = ImportReport(uri)
    changed = _changed(folders, wanted, _peek(uri, timeout), report, again=with_diff, digests=_may_write(home, uri))
    if not changed and not is_moved(uri):
        return report
    files = {clean_key(experiment.name): file_info(experiment) for experiment in experiments}
    with import_lock(home, timeout):
        backend = open_backend(home, uri, timeout)
        try:
            _import(backend, changed, wanted, files, report, with_diff, follow)
        finally:
            backend.close()
    return report


@contextmanager
def import_lock(home: Home, timeout: float | None = None) -> Iterator[None]:
    """The lock that everybody who writes to a store of this home shares; StoreError when it stays taken (default:
    for LOCK_SECONDS), HomeError when the home is of a newer version or cannot be written."""
    home.checked()
    seconds = LOCK_SECONDS if timeout is None else timeout
    busy = StoreError(
        f"another import has been running for {seconds:.0f} s",
        where=str(home.import_lock),
        mend=f"wait for it or end that process; {KEPT}",
    )
    with locked(home.import_lock, seconds, busy):
        yield


def file_info(experiment: Experiment) -> FileInfo:
    return FileInfo(clean_key(experiment.name), experiment.title, experiment.source, experiment.paper)


def _peek(uri: str, timeout: float | None = None) -> dict[str, Known]:
    """What a SQLite store knows, read without a lock; nothing for other stores (they are asked under the lock)."""
    path = sqlite_path(uri)
    if path is None or not path.exists() or path.stat().st_size == 0:
        return {}
    from plat.store.mlflow.sqlite_rows import read_known

    with store_errors(uri):
        connection = connect_readonly(path, timeout)
        try:
            return read_known(connection)
        finally:
            connection.close()


def _changed(
    folders: Iterable[str],
    wanted: Mapping[str, list[str]],
    known: Mapping[str, Known],
    report: ImportReport,
    *,
    again: bool = False,
    digests: bool = True,
) -> list[str]:
    """Of some run directories those that the store does not have as they are (all that it may have, with `again`); the
    others are counted in the report. With `digests`, a done run has to have one."""
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
        elif not again and have and _is_current(have, mark, digests) and have.files.issuperset(wanted.get(run_id, ())):
            report.unchanged += 1
        else:
            changed.append(folder)
    return changed


def _may_write(home: Home, uri: str) -> bool:
    """Whether digests can be added: an archive whose runs have none, from an earlier plat, is as good as it can be."""
    path = sqlite_path(uri)
    return os.access(home.root, os.W_OK) and (path is None or not path.exists() or os.access(path, os.W_OK))


def _is_current(have: Known, mark: str, digests: bool) -> bool:
    """Whether the store has a run as it is; with `digests`, done runs without their digest are not: it was deleted, or
    an earlier plat has stored them."""
    return have.signature == mark and (have.has_digest or not (digests and have.whole))


def _import(
    backend: Backend,
    folders: Sequence[str],
    wanted: Mapping[str, list[str]],
    files: Mapping[str, FileInfo],
    report: ImportReport,
    with_diff: bool,
    follow: Follow,
) -> None:
    known = backend.known([os.path.basename(folder) for folder in folders])
    backend.drop_twins()
    touched: dict[tuple[str, str], str | None] = {}  # (MLflow experiment, file) -> MLflow id of the file's own run
    # Another importer may have been faster.
    for folder in follow(_changed(folders, wanted, known, report, again=with_diff), "copying runs into the store"):
        run = RunPaths(Path(folder))
        record = read_record(run, wanted.get(run.id, ()), with_diff)
        if record is None:
            if is_of_other(problem := meta_damage(run)):
                report.damaged[run.id] = problem
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
            parent = touched[record.experiment, record.files[0]] if record.files else None
            done = backend.write(record, have, parent)
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
    """The record of a run that is damaged here and whole in the store: what is there stays, and the files that ask for
    it are added."""
    kept = {key: value for key, value in stored.tags.items() if key.startswith("plat.") and key != SIGNATURE}
    asking = {key: value for key, value in record.tags.items() if key.startswith("plat.in.")}
    return replace(record, signature=DAMAGED, status="FINISHED", tags=kept | asking, points=[], params={}, artifacts={})


def _file_run(backend: Backend, record: RunRecord, file: FileInfo) -> str | None:
    """The file's own run, None when the user deleted it: its runs then stand alone."""
    try:
        return backend.file_run(record.experiment, file)
    except DeletedExperiment:
        raise
    except Deleted:
        return None
