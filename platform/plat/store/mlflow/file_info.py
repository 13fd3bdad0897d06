"""Define what a file's MLflow run says of the file, and the errors of a write into MLflow's bin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from plat.store.mlflow.report_record import NOTE


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
