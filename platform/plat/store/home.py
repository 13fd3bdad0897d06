"""The single owner of every file name under $PLAT_HOME, but for those in a run's directory.

<home>/
    home.json                     format version of this home
    runs/<ab>/<id>/               one run (`plat.store.run_directory.paths`); <ab>: see `plat.store.layout`
    archive/<id>/                 a run that was set aside
    cache/                        shared by runs: base models, content-addressed
    mlflow.db  mlartifacts/       the default store
    studies.db                    the studies of `plat tune`
    reports/<file>/               what `plat report` writes by default; under overrides: <file>@<mark>/
    history.jsonl                 measured wall times, for `plat plan`
    preparations/                 one file for each preparation that is going on
    sweeps/<name>/                one folder for each sweep that is going on (plat.store.live_sweeps)
    index.db                      what the run directories say, remembered (plat.store.index)
    submissions/<name>/           what was handed to a scheduler (plat.store.submissions)
    logs/                         of preparations and of the worker server
    import.lock  meta.lock        one importer, one editor of a run's meta.json at a time
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plat.errors import HomeError
from plat.plain_files import read_json_value
from plat.store.layout import Layout, is_flat
from plat.store.run_directory.paths import RunPaths

FLAT, SHARDED = 1, 2  # formats of a home: they differ in the layout of its run directories
FORMAT = SHARDED  # of new homes, and the newest one known


@dataclass(frozen=True)
class Home:
    """A home directory. Creating the object touches nothing; `create()` makes and checks it."""

    root: Path

    @classmethod
    def find(cls, explicit: str | os.PathLike[str] | None = None) -> Home:
        """`--home`, else $PLAT_HOME, else ./plat-home; made absolute. HomeError for a path that is not UTF-8 text."""
        root = Path(explicit or os.environ.get("PLAT_HOME") or "plat-home").absolute()
        try:
            str(root).encode()
        except UnicodeEncodeError as error:  # SQLite and MLflow take paths as text
            raise HomeError(
                "the path of the home is not UTF-8 text",
                where=str(root),
                mend="rename that folder, or choose another home with --home DIR (or PLAT_HOME)",
            ) from error
        return cls(root)

    def create(self) -> Home:
        """Make the directory if needed; HomeError when it cannot be written or is from a newer version."""
        self.checked()  # before anything is written
        marker = self.root / "home.json"
        probe, scratch = self.root / f".probe-{os.getpid()}", self.root / f".home-{os.getpid()}.json"
        try:
            (self.root / "runs").mkdir(parents=True, exist_ok=True)
            self.cache.mkdir(exist_ok=True)
            probe.write_text("x")
            if not marker.exists():
                scratch.write_text(json.dumps({"format": SHARDED if self.layout.is_sharded else FLAT}) + "\n")
                scratch.replace(marker)
        except OSError as error:
            raise HomeError(
                f"cannot write to the home directory: {error.strerror or error}",
                where=str(self.root),
                mend="make it writable, free some disk space, or choose another with --home DIR (or PLAT_HOME)",
            ) from error
        finally:
            for file in (probe, scratch):  # a full disk leaves an empty one
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
        return self

    def checked(self) -> Home:
        """This home; HomeError when it is from a newer version, or no folder. Makes and changes nothing."""
        if self.root.exists() and not self.root.is_dir():
            raise HomeError(
                "the home directory is a file",
                where=str(self.root),
                mend="choose another with --home DIR (or PLAT_HOME), or move the file away",
            )
        marker = self.root / "home.json"
        if marker.exists():
            _check_format(marker)
        return self

    def exists(self) -> bool:
        """Whether there is a home here, not only a folder (or nothing)."""
        return (self.root / "home.json").is_file() or self.runs.is_dir()

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def archive(self) -> Path:
        """Runs that somebody has set aside (`plat archive`): one folder each."""
        return self.root / "archive"

    def archived(self, run_id: str) -> RunPaths:
        """The directory that a run has in the archive, whether it is there or not."""
        return RunPaths(self.archive / run_id)

    def archived_ids(self) -> list[str]:
        """The ids of the runs in the archive, sorted."""
        try:
            return sorted(entry.name for entry in os.scandir(self.archive) if entry.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def history(self) -> Path:
        return self.root / "history.jsonl"

    @property
    def import_lock(self) -> Path:
        return self.root / "import.lock"

    @property
    def meta_lock(self) -> Path:
        return self.root / "meta.lock"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    def job_log(self, job: str) -> Path:
        """What a job that is not a run (a preparation) prints."""
        return self.logs / f"{_file_name(job)}.txt"

    @property
    def preparations(self) -> Path:
        return self.root / "preparations"

    @property
    def sweeps(self) -> Path:
        """A folder for each sweep that goes on (plat.store.live_sweeps)."""
        return self.root / "sweeps"

    def preparation(self, job: str) -> Path:
        """JSON, while the preparation is going on: job, title, who does it, since when."""
        return self.preparations / f"{_file_name(job)}.json"

    @property
    def submissions(self) -> Path:
        return self.root / "submissions"

    @property
    def database(self) -> Path:
        return self.root / "mlflow.db"

    @property
    def studies(self) -> Path:
        """The studies of `plat tune`: a database that Optuna's own tools open."""
        return self.root / "studies.db"

    def store_uri(self, explicit: str | None = None) -> str:
        """`--store`, else $MLFLOW_TRACKING_URI, else SQLite in this home. StoreError for a kind that MLflow lacks."""
        given = explicit or os.environ.get("MLFLOW_TRACKING_URI")
        if not given:
            return f"sqlite:///{self.database}"
        from plat.store.mlflow.uri import check_kind

        check_kind(given)
        return given

    @cached_property
    def layout(self) -> Layout:
        """Where the run directories lie. Whoever wants one of them asks `run`, `run_ids` or `all_runs`."""
        runs = str(self.runs)
        try:
            is_sharded = read_json_value(self.root / "home.json")["format"] != FLAT
        except (OSError, ValueError, KeyError, TypeError):
            is_sharded = not is_flat(runs)
        return Layout(runs, is_sharded)

    def run(self, run_id: str) -> RunPaths:
        """A run's directory, whether it is there or not."""
        return RunPaths(Path(self.layout.place(run_id)))

    def run_ids(self) -> list[str]:
        """The ids of the runs that have a directory now, sorted."""
        return self.layout.ids()

    def all_runs(self) -> list[RunPaths]:
        """The directories of all runs, by id."""
        return [self.run(run_id) for run_id in self.run_ids()]


def _file_name(job: str) -> str:
    return re.sub(r"[^\w.-]+", "-", job)


def _check_format(marker: Path) -> None:
    """HomeError unless this version can use the home."""
    try:
        version = int(read_json_value(marker)["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HomeError(
            "home.json is not readable", where=str(marker), mend="restore it, or move the folder away"
        ) from error
    if version > FORMAT:
        raise HomeError(
            f"this home was written by a newer plat (format {version}, this one knows {FORMAT})",
            where=str(marker),
            mend="upgrade plat, or choose another home with --home DIR",
        )
