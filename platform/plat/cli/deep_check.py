"""`plat doctor --deep`: the store held against the run directories, and mended from them with `--mend`; and artifacts
held against their hashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from plat.cli.freshness import forget
from plat.errors import PlatError
from plat.store.home import Home
from plat.store.run_directory.files import mend_of
from plat.units import are, counted, size

if TYPE_CHECKING:
    from plat.store.artifact_check import ArtifactCheck
    from plat.store.mlflow.verify import StoreCheck

SHOWN = 10  # runs named
MEND = "`plat doctor --deep --mend` brings the store back from the run directories, and keeps a copy of it"


class Finding(NamedTuple):
    """One line of `plat doctor`."""

    level: str  # ok | warning | error
    says: str
    mend: str = ""


def check_results(home: Home, uri: str, mend: bool) -> list[Finding]:
    """What a value-by-value check found; with `mend`, what was mended and what a second check found."""
    from plat.store.mlflow.importer import import_runs
    from plat.store.mlflow.uri import sqlite_path
    from plat.store.mlflow.verify import mend_store, verify_store

    if not home.runs.is_dir():
        return [Finding("ok", "no runs to check")]
    try:
        path = sqlite_path(uri)
        if mend and path is not None and not path.exists():  # e.g. an earlier mending was killed
            import_runs(home, uri)
            done = Finding("ok", "there was no store: it was filled from the run directories")
        else:
            check = verify_store(home, uri)
            kept = mend_store(home, uri, check) if mend else None
            if kept is None:
                return list(_findings(check, uri))
            mended = (
                f"{counted(len(check.differing), 'run')} {'was' if len(check.differing) == 1 else 'were'}"
                if not check.file
                else f"the file ({check.file}) was"
            )
            done = Finding("ok", f"{mended} mended; the store as it was is {kept}")
        forget(home)  # reports may have been made from what was wrong
        return [done, *_findings(verify_store(home, uri), uri)]
    except PlatError as error:
        return [Finding("error", error.what, error.mend or "")]


def _findings(check: StoreCheck, uri: str) -> Iterator[Finding]:
    from plat.store.mlflow.uri import gc_command

    if check.file:
        yield Finding("error", f"the store's file is damaged: {check.file}", MEND)
        return
    for run_id, problem in list(check.differing.items())[:SHOWN]:
        yield Finding("error", f"run {run_id}: {problem}", MEND)
    for run_id, problem in list(check.damaged.items())[:SHOWN]:
        yield Finding("error", f"run {run_id}: its directory is damaged: {problem}", mend_of(problem))
    more = sum(max(0, len(runs) - SHOWN) for runs in (check.differing, check.damaged))
    if more:
        yield Finding("error", f"and {more} more runs")
    if check.absent:
        says = f"{counted(len(check.absent), 'run')} {are(len(check.absent))} not in the store yet"
        yield Finding("warning", f"{says}: {_names(check.absent)}", "`plat sync` copies them")
    if check.behind:
        yield Finding(
            "warning", f"{counted(len(check.behind), 'run')} not compared: {_names(check.behind)}", "`plat sync` first"
        )
    if check.deleted:
        yield Finding(
            "warning",
            f"{counted(len(check.deleted), 'run')} deleted in MLflow, not compared: {_names(list(check.deleted))}",
            f"restore them there; or have it forget them, and import them afresh: "
            f"{gc_command(uri, list(check.deleted.values()))}",
        )
    if check.twins:
        yield Finding(
            "warning",
            f"{counted(len(check.twins), 'twin')} in MLflow's bin: homes had created the same run at once",
            "`plat gc` with the same --store removes them",
        )
    alone = f"; not checked: {counted(check.alone, 'run')} of the store without a directory here" if check.alone else ""
    if not check.differing and not check.damaged:
        compared = f"{counted(check.runs, 'stored run')} compared with their directories"
        yield Finding("ok", f"{compared}: all {check.values} values are equal{alone}")


def check_kept_files(home: Home) -> list[Finding]:
    """What a check of every artifact found; nothing where there is none."""
    from plat.store.artifact_check import check_artifacts

    return list(_artifact_findings(check_artifacts(home)))


def _artifact_findings(check: ArtifactCheck) -> Iterator[Finding]:
    for run_id, problem in list(check.damaged.items())[:SHOWN]:
        mend = "bring the folder back from a copy, or remove the run's directory and sweep again"
        yield Finding("error", f"run {run_id}: {problem}", mend)
    if len(check.damaged) > SHOWN:
        yield Finding("error", f"and {len(check.damaged) - SHOWN} more with damaged artifacts")
    if check.absent:
        yield Finding(
            "warning",
            f"{counted(len(check.absent), 'run')} whose artifacts are not in this home: {_names(check.absent)}",
        )
    if check.artifacts:
        checked = f"{counted(check.artifacts, 'artifact')} checked, {size(check.bytes)}"
        yield Finding("ok", f"{checked}: the hashes are those they were kept with")


def _names(runs: Sequence[str]) -> str:
    return ", ".join(runs[:SHOWN]) + (f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else "")
