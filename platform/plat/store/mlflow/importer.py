"""Import run directories into MLflow; `import_runs` lists what is promised."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from plat.errors import StoreError
from plat.store.disk.durable import locked, to_checked_json, write
from plat.store.home import Home
from plat.store.measured import Measured, conflict, decode, lacking
from plat.store.mlflow.artifacts import read_artifact
from plat.store.mlflow.connect import open_writer
from plat.store.mlflow.run_record import RunRecord, has_begun, read_record, signature, without_history
from plat.store.mlflow.run_tags import clean_key
from plat.store.mlflow.sqlite_file import has_content
from plat.store.mlflow.store_errors import KEPT
from plat.store.mlflow.store_writer import StoreWriter
from plat.store.mlflow.stored_runs import SIGNATURE, Deleted, DeletedExperiment, FileInfo, StoredList, StoredRun
from plat.store.mlflow.uri import gc_command, sqlite_path
from plat.store.run_directory.description import MEASURED
from plat.store.run_directory.own_files import Damage
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import meta_damage, read_result
from plat.units import are, counted
from plat.words.outcomes import is_result

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
    restored: dict[str, str] = field(default_factory=dict)  # written again -> what was wrong with it in the store
    unreadable: list[str] = field(default_factory=list)  # meta.json or config.yaml is missing or damaged
    damaged: dict[str, Damage] = field(default_factory=dict)  # run id -> problem of its history (file and line)

    @property
    def exit_code(self) -> int:
        """Return 3 if a run is damaged or unreadable, else 0."""
        return 3 if self.damaged or self.unreadable else 0

    def warnings(self) -> list[str]:
        """Return lines on runs that were not imported, are damaged, or had changed in the store; [] if none.

        At most five of each kind are named.
        """
        kinds = (
            (self.deleted, "deleted in MLflow and left deleted (restore them in MLflow, or delete them for good)"),
            (
                self.differing,
                "redone with other values; MLflow keeps the first (to replace them, delete them in MLflow; then "
                "`plat sync` prints the next command)",
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
        if self.restored:
            runs, first = f"{counted(len(self.restored), 'run')} changed in the store", next(iter(self.restored))
            named = ", ".join([*self.restored][:5])
            lines.append(f"{runs} (e.g. {self.restored[first]}), imported anew from the home: {named}")
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
    again: bool = False,
    curves: bool | None = None,
) -> ImportReport:
    """Import these run directories (default: all of the home) into the store at `uri`.

    experiments  parsed files: their runs are tagged with them, and the MLflow run of each file gets its title
    timeout      seconds to wait for another importer and for another writer of a SQLite store; None: the defaults
    follow       iterates over the runs and may show progress
    again        also write runs that the store has already, for example because their artifacts were edited
    curves       mirror the steps of metrics in MLflow's tables; None: except those of other tools (`RunRecord.foreign`)

    - Importing twice, in any order, from several processes or after a kill gives the result of one import. The first
      values of a done run win.
    - Raises StoreError if the store cannot be used, HomeError as `import_lock`. The run directories stay complete, and
      the next import catches up, even if the whole store was removed.
    - Runs deleted by the user in MLflow stay deleted and are reported. After a restore in MLflow the next import
      updates them; after `mlflow gc` it imports existing directories afresh. An archived run that is done again is
      imported as a new MLflow run.
    - Runs redone with other values are left unchanged and reported.
    - Runs that have not begun (queued by a scheduler) are skipped.
    - A damaged run that the store does not have in full is stored without its history. If it is done, its outcome in
      the store is "damaged". Every import reports it until it is fixed.
    - The hash of the artifact of a done run is written into its result.json.
    - If nothing has changed, an import into a SQLite store takes no lock and does not load MLflow.
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
    changed = list(folders)
    if (path := sqlite_path(uri)) is not None:  # a server is asked under the lock
        listed = StoredList(home, uri) if has_content(path) else None
        changed = _changed(folders, wanted, listed.runs if listed else {}, report, again)
        if not changed and not (listed and listed.unsettled()):
            return report
    files = {clean_key(experiment.name): file_info(experiment) for experiment in experiments}
    with import_lock(home, timeout), open_writer(home, uri, timeout) as writer:
        _Import(home, uri, writer, wanted, files, report, again, curves).run(changed, follow)
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


def _changed(
    folders: Iterable[str],
    wanted: Mapping[str, list[str]],
    known: Mapping[str, StoredRun],
    report: ImportReport,
    again: bool,
) -> list[str]:
    """Return the run directories that differ from the store; report the others."""
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
            and not again
            and have.measured
            and have.signature == mark
            and set(have.files).issuperset(wanted.get(run_id, ()))
        ):
            report.unchanged += 1
        else:
            changed.append(folder)
    return changed


@dataclass
class _Import:
    """One import into an open store."""

    home: Home
    uri: str
    writer: StoreWriter
    wanted: Mapping[str, list[str]]
    files: Mapping[str, FileInfo]
    report: ImportReport
    again: bool
    curves: bool | None
    # (MLflow experiment, file) -> MLflow id of the file's run
    touched: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def run(self, folders: Sequence[str], follow: Follow) -> None:
        known = self.writer.known([os.path.basename(folder) for folder in folders])
        self.writer.drop_twins()
        # compared again under the lock: another importer may have been faster
        changed = _changed(folders, self.wanted, known, self.report, self.again)
        for folder in follow(changed, "copying runs into the store"):
            self._import(RunPaths(Path(folder)), known.get(os.path.basename(folder)))
        asked = {(self.writer.experiment(name), file) for (name, file), own in self.touched.items() if own is not None}
        for number, file in sorted(asked | self.writer.running_files()):
            self.writer.settle(number, file)

    def _import(self, run: RunPaths, have: StoredRun | None) -> None:
        """Import one run, and note in the report what became of it."""
        record = read_record(run, self.wanted.get(run.id, ()))
        if record is None:
            if (damage := meta_damage(run)) and damage.foreign:
                self.report.damaged[run.id] = damage
            else:
                self.report.unreadable.append(run.id)
            return
        if record.damage:
            self.report.damaged[run.id] = record.damage
        try:
            self._touch(record)
            is_older = have is not None and not have.measured and is_result(have.outcome)  # as plat 0.4 stored it
            if have and ((have.whole and not record.done) or (record.damage and (have.whole or is_older))):
                self.writer.tag(have, _asking(record))  # what the store has of a done run stays
                return
            if record.damage:
                record = without_history(record)
            elif record.done:
                record.signature = _note_hash(run, record)
            curves = not record.foreign if self.curves is None else self.curves
            while record.damage or not (have and have.measured) or self._is_to_be_written(record, have):
                found = self.writer.write(record, have, curves=curves)
                if found is None:
                    if run.id not in self.report.damaged:
                        self.report.imported.append(run.id)
                    return
                have = found
        except Deleted:
            self.report.deleted.append(run.id)

    def _is_to_be_written(self, record: RunRecord, have: StoredRun) -> bool:
        """Return False if the store keeps what it has of a run; report a run that was redone with other values."""
        if have.measured == record.sha256 and not self.again:
            return True  # its tags, for example the files that ask for it
        stored = read_artifact(self.home, self.uri, have)
        if not isinstance(stored, Measured):
            if have.whole:
                self.report.restored[record.id] = str(stored)
            return True
        own = decode(record.measured)
        if conflict(own, stored):
            self.report.differing.append(record.id)
            return False
        if have.whole and (problem := lacking(own, stored)):
            self.report.restored[record.id] = problem
            return True
        if have.measured == record.sha256 or not have.whole:
            return True
        self.writer.tag(have, {**_asking(record), SIGNATURE: record.signature})  # the first values stay
        self.report.imported.append(record.id)
        return False

    def _touch(self, record: RunRecord) -> None:
        """Create or update the MLflow runs of the files that ask for a run."""
        for file in record.files:
            if (record.experiment, file) not in self.touched:
                own = _file_run(self.writer, record, self.files.get(file, FileInfo(file)))
                self.touched[record.experiment, file] = own


def _asking(record: RunRecord) -> dict[str, str]:
    """Return the tags that name the files and searches that ask for a run."""
    return {key: value for key, value in record.tags.items() if key.startswith(("plat.in.", "plat.study."))}


def _note_hash(run: RunPaths, record: RunRecord) -> str:
    """Write the hash of its artifact into the result.json of a done run; return the signature of the directory then."""
    result = read_result(run)
    if result is not None and result.get(MEASURED) != record.sha256:
        with suppress(OSError):  # a read-only home
            write(run.result, to_checked_json({**result, MEASURED: record.sha256}))
    return signature(str(run.root)) or record.signature


def _file_run(writer: StoreWriter, record: RunRecord, file: FileInfo) -> str | None:
    """Return the MLflow id of the file's run, None if the user deleted it."""
    try:
        return writer.file_run(record.experiment, file)
    except DeletedExperiment:
        raise
    except Deleted:
        return None
