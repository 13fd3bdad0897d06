"""Define what the stores have in common: the protocols of a writer and a reader, and their data.

Both writers, `SqliteStore` and `ClientStore`, promise: a plat run id is one MLflow run; a write may be interrupted at
any moment and repeated; the first value of a (run, key, step) wins; runs that the user deleted in MLflow stay deleted.
Both ignore two kinds of runs in MLflow's bin: runs that plat 0.4 archived (tag `plat.archived`), and twins (tag
`plat.twin`), the duplicates that remain when several homes create the same run on a server at once. Both readers,
`SqlReader` and `ClientReader`, return equal numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from plat.store.mlflow.report_record import NOTE, LoggedReport
from plat.store.mlflow.run_record import NOT_COMPARED, RunRecord
from plat.words.outcomes import is_result

if TYPE_CHECKING:
    import numpy as np

SIGNATURE = "plat.imported"
ARCHIVED = "plat.archived"  # plat 0.4 had a verb that put runs into MLflow's bin with this tag
TWIN = "plat.twin"  # of a duplicate in MLflow's bin: the MLflow id of the run that was kept
BASE_TAG = "plat.summary.base_sha256"  # content hash of the base model that a run started from
LARGEST = 1.7976931348623157e308  # MLflow's SQL stores keep infinity as this number


@dataclass(frozen=True, slots=True)
class Known:
    """A run in the store. `deleted`: it, or its MLflow experiment, is in MLflow's bin.

    `signature` is the fingerprint of its directory at the import; `files` are the experiment files that asked for it.
    """

    mlflow_id: str
    signature: str | None
    files: frozenset[str]
    deleted: bool = False
    outcome: str | None = None
    has_digest: bool = False

    @property
    def whole(self) -> bool:
        """Return True if the run was stored after it was done, with all of its history."""
        return is_result(self.outcome)


@dataclass(frozen=True)
class Stored:
    """The content of one run in the store.

    values     (key, step) -> value; NaN is None, infinities are the largest number
    artifacts  URI of the folder of its files
    newest     key -> last (step, value), which MLflow stores separately and shows in its interface
    """

    values: Mapping[tuple[str, int], float | None]
    tags: Mapping[str, str]
    params: Mapping[str, str]
    artifacts: str
    status: str
    newest: Mapping[str, tuple[int, float | None]]


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


class Backend(Protocol):
    """A store open for writing. Every method may raise StoreError; callers hold the import lock."""

    def check(self) -> None:
        """Raise StoreError unless the store answers and, as far as can be tested, is writable. Changes nothing."""

    def known(self, ids: Iterable[str] | None = None) -> dict[str, Known]:
        """Return the runs by plat id, including those that the user deleted. Runs not in `ids` may be left out."""

    def drop_twins(self) -> None:
        """Put duplicates of a run into MLflow's bin, and leave one active. Killed importers leave such duplicates.

        Call `known` first: only the duplicates that its last call has found are dropped."""

    def twins(self) -> list[str]:
        """Return the MLflow ids of the twins in MLflow's bin, sorted."""

    def stored(self, known: Known) -> Stored:
        """Return the stored content of this run."""

    def file_run(self, experiment: str, file: FileInfo) -> str:
        """Create or update the file's run in this MLflow experiment and return its MLflow id; may raise Deleted."""

    def write(self, record: RunRecord, known: Known | None) -> bool:
        """Write one run. Returns False and changes nothing if the record contradicts what is stored.

        Raises DeletedExperiment if a new run's MLflow experiment is in MLflow's bin."""

    def forget(self, known: Known) -> None:
        """Remove what was imported of a run, as far as the store can, so that the next import writes it again.

        Tags of users stay."""

    def settle(self, experiment: str, file: str) -> None:
        """Set status and times of the file's run, if it has one, from those of all runs that the file asks for."""

    def replace_report(self, run: str, report: LoggedReport, time: int) -> None:
        """Replace the report of a file's run (files under `report/`, metrics, tags), then rewrite the description of
        its MLflow experiment. `time` is the time of the metrics in milliseconds since 1970."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class RawRun:
    """One MLflow run. `artifacts` is the URI of its folder; `params` is empty if it was not requested."""

    mlflow_id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    artifacts: str


class Series(NamedTuple):
    """Metrics of a run: K sorted keys, their counts n_k, and sum(n_k) steps and values in the order of key and step."""

    keys: list[str]
    counts: list[int]
    steps: np.ndarray  # int64
    values: np.ndarray  # float64


class RawReader(Protocol):
    """A store open for reading. Every method may raise StoreError."""

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        """Return the runs tagged `plat.in.<file>` that are not deleted, in any order."""

    def deleted(self, file: str) -> set[str]:
        """Return the plat ids of runs tagged `plat.in.<file>` that the user has put into MLflow's bin."""

    def series(self, run: RawRun) -> Series: ...

    def artifact(self, run: RawRun, name: str) -> bytes | None: ...

    def close(self) -> None: ...


def conflict(record: RunRecord, stored: Stored) -> str:
    """Return in one line which base model or value (except `time/`, `mem/`) differs from the stored one, or ""."""
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
    """Return a value as MLflow's SQL stores keep it: infinities as the largest number, None for NaN (a flag there)."""
    return None if value != value else max(-LARGEST, min(LARGEST, value))


def restore(values: np.ndarray) -> np.ndarray:
    """Replace the largest numbers by infinities, for which SQL stores keep them, in place; return `values` itself."""
    import numpy as np

    values[values >= LARGEST] = np.inf
    values[values <= -LARGEST] = -np.inf
    return values


def stale_tags(stored: Iterable[str], wanted: Mapping[str, str]) -> list[str]:
    """Return the names of plat's stored tags that are not wanted; never users' tags, `plat.in.*` or the signature."""
    kept = ("plat.in.", SIGNATURE)
    return [key for key in stored if key.startswith("plat.") and key not in wanted and not key.startswith(kept)]


def together(rows: Iterable[tuple[str, int | None, int | None]]) -> tuple[str, int | None, int | None]:
    """Return (status, start, end) of a group of runs from those of its runs, with times in the unit of `rows`.

    While a run is RUNNING, so is the group, and its end is None. Else it is FINISHED and ends with its last run.
    """
    rows = list(rows)
    running = any(status == "RUNNING" for status, _, _ in rows)
    start = min((start for _, start, _ in rows if start is not None), default=None)
    end = max((end for _, _, end in rows if end is not None), default=None)
    return ("RUNNING", start, None) if running else ("FINISHED", start, end)
