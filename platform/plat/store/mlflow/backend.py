"""What the importer needs of a store, as one protocol with two implementations: `SqliteStore` and `ClientStore`.

`plat.store.mlflow.connect` chooses between them.

Both keep the same promises: a plat run id is one MLflow run, a write may be cut short at any moment and repeated, a
(run, key, step) is stored once and the first value wins, and what the user deleted in MLflow stays deleted. What `plat
archive` has put into MLflow's bin (tag `plat.archived`) is not known to them: a run that is done anew gets an MLflow
run of its own. Nor are twins (tag `plat.twin`): several homes may create a run of a server at once, and one is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from plat.outcomes import is_result
from plat.store.mlflow.record import NOT_COMPARED, RunRecord
from plat.store.mlflow.report_record import NOTE, LoggedReport

SIGNATURE = "plat.imported"
ARCHIVED = "plat.archived"  # when `plat archive` put the run into MLflow's bin, in milliseconds since 1970
TWIN = "plat.twin"  # in MLflow's bin, because another home had created the same run: the MLflow id of that one
BASE_TAG = "plat.summary.base_sha256"  # content hash of the base model that a run started from
LARGEST = 1.7976931348623157e308  # how MLflow's SQL stores spell infinity


@dataclass(frozen=True, slots=True)
class Known:
    """What the store has of one run. `deleted`: it lies in MLflow's bin, or its MLflow experiment does."""

    mlflow_id: str
    signature: str | None
    files: frozenset[str]
    deleted: bool = False
    outcome: str | None = None
    has_digest: bool = False

    @property
    def whole(self) -> bool:
        """Whether the run was stored when it was done, with all of its history."""
        return is_result(self.outcome)


@dataclass(frozen=True)
class Stored:
    """What the store holds of one run: values by (key, step), None for NaN, infinities as the largest number.

    `newest` is what MLflow's interface shows of each metric: its last (step, value), kept apart from `values`.
    `artifacts` is the URI of the folder of its files.
    """

    values: Mapping[tuple[str, int], float | None]
    tags: Mapping[str, str]
    params: Mapping[str, str]
    artifacts: str
    status: str
    newest: Mapping[str, tuple[int, float | None]]


@dataclass(frozen=True)
class FileInfo:
    """An experiment file as its own MLflow run describes it; title and source are None when only its name is known.

    The report of a file under overrides has a run of its own: its name is `FILE@MARK` (`Experiment.report_name`).
    """

    name: str
    title: str | None = None
    source: str | None = None
    paper: str | None = None

    def tags(self) -> dict[str, str]:
        """The tags of the file's own run, with a description that MLflow's UI shows."""
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
    """What a write needs is in MLflow's bin."""


class DeletedExperiment(Deleted):
    """The MLflow experiment is."""


class Backend(Protocol):
    """A store open for writing. Every method may raise StoreError; callers hold the import lock."""

    def check(self) -> None:
        """StoreError unless the store answers and, as far as that can be asked, can be written to; changes nothing."""

    def known(self, ids: Iterable[str] | None = None) -> dict[str, Known]:
        """Runs by plat id, those too that a person deleted; `ids` is a hint: others may be left out."""

    def drop_twins(self) -> None:
        """Put all but one of the active runs of a plat id that `known` has met into MLflow's bin: importers that were
        killed have left them."""

    def twins(self) -> list[str]:
        """The MLflow ids of the twins in MLflow's bin, sorted."""

    def stored(self, known: Known) -> Stored:
        """What the store holds of this run."""

    def file_run(self, experiment: str, file: FileInfo) -> str:
        """The MLflow id of the file's own run in this MLflow experiment, made or brought up to date; Deleted."""

    def write(self, record: RunRecord, known: Known | None, parent: str | None) -> bool:
        """Bring one run up to date. False when stored values differ from the record's: then nothing is changed."""

    def forget(self, known: Known) -> None:
        """Take out what was imported of this run, as far as the store can, so that the next import stores it again.
        Tags of users stay."""

    def settle(self, experiment: str, file: str) -> None:
        """Give the file's own run the status and times that its runs have together."""

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        """Put a report in place of the earlier one of a file's run: files under `report/`, metrics, tags; then write
        the description of its MLflow experiment anew. `time`, in milliseconds, is that of the metrics."""

    def close(self) -> None: ...


def conflict(record: RunRecord, stored: Stored) -> str:
    """In what the record contradicts what is stored, in one line; "" when it only adds to it."""
    base, recorded = stored.tags.get(BASE_TAG), record.tags.get(BASE_TAG)
    if base and recorded and base != recorded:
        return f"it started from base model {recorded[:12]}, the stored run from {base[:12]}"
    for point in record.points:
        if (point.key, point.step) in stored.values and not point.key.startswith(NOT_COMPARED):
            value = stored.values[point.key, point.step]
            if value != sql_value(point.value):
                return (
                    f"{point.key} at step {point.step} is {point.value}, stored is {'NaN' if value is None else value}"
                )
    return ""


def sql_value(value: float) -> float | None:
    """A value as MLflow's SQL stores keep it: infinities as the largest number, None for NaN (a flag there)."""
    return None if value != value else max(-LARGEST, min(LARGEST, value))


def stale_tags(stored: Iterable[str], wanted: Mapping[str, str]) -> list[str]:
    """Our own tags that the record no longer has (the outcome of an attempt that was retried); never a user's tag."""
    kept = ("plat.in.", SIGNATURE)
    return [key for key in stored if key.startswith("plat.") and key not in wanted and not key.startswith(kept)]


def together(rows: Iterable[tuple[str, int | None, int | None]]) -> tuple[str, int | None, int | None]:
    """Status, start and end of a group of runs: running while any is, ended when the last one ended."""
    rows = list(rows)
    running = any(status == "RUNNING" for status, _, _ in rows)
    start = min((start for _, start, _ in rows if start is not None), default=None)
    end = max((end for _, _, end in rows if end is not None), default=None)
    return ("RUNNING", start, None) if running else ("FINISHED", start, end)
