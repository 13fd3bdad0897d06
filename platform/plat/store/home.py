"""Define every file name under $PLAT_HOME, except those in a run's directory. No other module does.

<home>/
    home.json                     format version of this home
    runs/<ab>/<id>/               one run (`plat.store.run_directory.paths`); <ab> begins its id
    code/<hash>/                  a copy of the code of scripts (plat.trainer.script.snapshot)
    cache/                        shared by runs: base models, content-addressed; and what can be read again from the
                                  store: stores/ (lists of runs), measured/ (artifacts of a server), last_values.db
    mlflow.db  mlartifacts/       the default store
    studies.db                    the studies of `plat tune`
    judgements/<name>.yaml        the experiment file of each `plat judge`
    versions/<commit>/            files of a commit that it compared (plat.app.judging.checkout)
    reports/<file>/               default output of `plat report`; with overrides: <file>@<mark>/
    history.jsonl                 measured wall times, for `plat plan`
    preparations/                 one file for each active preparation
    sweeps/<name>/                one folder for each active sweep (plat.store.coordination.live_sweeps)
    submissions/<name>/           one submission to a scheduler (plat.store.coordination.submissions)
    logs/                         logs of preparations and of the worker server
    import.lock  meta.lock  submissions.lock
                                  locks: one importer, one editor of a run's meta.json, one submitter at a time
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from plat.errors import HomeError, os_errors_as
from plat.plain_files import read_json_value
from plat.store.run_directory.paths import Below, RunPaths

FORMAT = 2
SHARD = 2  # length of <ab>, the beginning of the ids of the runs in a folder: it keeps folders small


@dataclass(frozen=True)
class Home:
    """A home directory. The constructor does not touch the disk; `create()` makes and checks the directory."""

    root: Path

    runs = Below("runs")
    cache = Below("cache")
    code = Below("code")
    reports = Below("reports")
    history = Below("history.jsonl")
    import_lock = Below("import.lock")
    meta_lock = Below("meta.lock")
    logs = Below("logs")
    preparations = Below("preparations")
    sweeps = Below("sweeps")  # active sweeps (plat.store.coordination.live_sweeps)
    submissions = Below("submissions")
    submissions_lock = Below("submissions.lock")
    database = Below("mlflow.db")
    judgements = Below("judgements")  # the experiment files of `plat judge`
    versions = Below("versions")  # files of commits that it compared
    studies = Below("studies.db")  # a database that Optuna's tools can open

    @classmethod
    def find(cls, explicit: str | os.PathLike[str] | None = None) -> Home:
        """Find the home: `explicit`, else $PLAT_HOME, else ./plat-home. Raises HomeError if that path is not UTF-8."""
        root = Path(explicit or os.environ.get("PLAT_HOME") or "plat-home").absolute()
        try:
            str(root).encode()
        except UnicodeEncodeError as error:  # SQLite and MLflow take paths as text
            raise HomeError(
                "the path of the home is not UTF-8 text",
                where=str(root),
                fix="rename that folder, or choose another home with --home DIR (or PLAT_HOME)",
            ) from error
        return cls(root)

    def create(self) -> Home:
        """Make the folder with home.json, `runs` and `cache`, as far as they are absent; return this home.

        Raises HomeError if the folder cannot be written, which is tested even if nothing is absent. Raises what
        `checked` raises, before anything is written.
        """
        self.checked()  # before anything is written
        marker = self.root / "home.json"
        probe, scratch = self.root / f".probe-{os.getpid()}", self.root / f".home-{os.getpid()}.json"
        fix = "make it writable, free some disk space, or choose another with --home DIR (or PLAT_HOME)"
        try:
            with os_errors_as(HomeError, "cannot write to the home directory", self.root, fix):
                self.runs.mkdir(parents=True, exist_ok=True)
                self.cache.mkdir(exist_ok=True)
                probe.write_text("x")
                if not marker.exists():
                    scratch.write_text(json.dumps({"format": FORMAT}) + "\n")
                    if not (ignore := self.root / ".gitignore").exists():
                        ignore.write_text("*\n")
                    scratch.replace(marker)
        finally:
            for file in (probe, scratch):  # a full disk leaves an empty one
                with contextlib.suppress(OSError):
                    file.unlink(missing_ok=True)
        return self

    def checked(self) -> Home:
        """Return this home. Raises HomeError if it is a file, or its home.json is damaged or of another format."""
        if self.root.exists() and not self.root.is_dir():
            raise HomeError(
                "the home directory is a file",
                where=str(self.root),
                fix="choose another with --home DIR (or PLAT_HOME), or move the file away",
            )
        marker = self.root / "home.json"
        if marker.exists():
            _check_format(marker)
        return self

    def exists(self) -> bool:
        """Return True if the folder is a home: it has a home.json or a folder `runs`."""
        return (self.root / "home.json").is_file() or self.runs.is_dir()

    def holds(self, path: Path) -> bool:
        """Return True if the folder of a path really lies in the home: no link on the way leads out of it."""
        return Path(os.path.realpath(path.parent)).is_relative_to(os.path.realpath(self.root))

    def job_log(self, job: str) -> Path:
        """Return the path of the log of a job that is not a run, e.g. of "prepare:<trainer>:<key>"."""
        return self.logs / f"{_file_name(job)}.txt"

    def preparation(self, job: str) -> Path:
        """Return the path of a preparation's JSON file (job, title, process, start time), kept while it is active."""
        return self.preparations / f"{_file_name(job)}.json"

    def store_uri(self, explicit: str | None = None) -> str:
        """Return `explicit`, else $MLFLOW_TRACKING_URI, else this home's SQLite URI. Raises StoreError if MLflow has no
        store of that kind."""
        given = explicit or os.environ.get("MLFLOW_TRACKING_URI")
        if not given:
            return f"sqlite:///{self.database}"
        from plat.store.mlflow.uri import check_kind

        check_kind(given)
        return given

    def run_folder(self, run_id: str) -> str:
        """Return the path of a run's directory, which may be absent, as text: fast for many runs."""
        return f"{self._runs}/{run_id[:SHARD]}/{run_id}"

    def run(self, run_id: str) -> RunPaths:
        """Return the paths of a run. Its directory may be absent."""
        return RunPaths(Path(self.run_folder(run_id)))

    def run_ids(self, beginning: str = "") -> list[str]:
        """Return the sorted ids of the runs with a directory whose ids start with `beginning`."""
        shards = [beginning[:SHARD]] if len(beginning) >= SHARD else _names(self._runs)
        names = [name for shard in shards for name in _names(f"{self._runs}/{shard}") if name[:SHARD] == shard]
        return sorted(name for name in names if name.startswith(beginning))

    def all_runs(self) -> list[RunPaths]:
        """Return the paths of all runs with a directory, sorted by id."""
        return [self.run(run_id) for run_id in self.run_ids()]

    @cached_property
    def _runs(self) -> str:
        return str(self.runs)


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError:
        return []


def _file_name(job: str) -> str:
    return re.sub(r"[^\w.-]+", "-", job)


def _check_format(marker: Path) -> None:
    """Raise HomeError if home.json is not readable, or of another format than FORMAT."""
    try:
        version = int(read_json_value(marker)["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise HomeError(
            "home.json is not readable", where=str(marker), fix="restore it, or move the folder away"
        ) from error
    if version < FORMAT:
        raise HomeError(
            f"this home was written by plat 0.2 or earlier (format {version}, this one knows {FORMAT})",
            where=str(marker),
            fix="choose another home with --home DIR, or use the plat that wrote it",
        )
    if version > FORMAT:
        raise HomeError(
            f"this home was written by a newer plat (format {version}, this one knows {FORMAT})",
            where=str(marker),
            fix="upgrade plat, or choose another home with --home DIR",
        )
