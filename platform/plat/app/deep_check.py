"""`plat doctor --deep`: compare the store with the run directories, repair it, and check the hashes of artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from plat.app.freshness import forget
from plat.errors import PlatError
from plat.plugins.doctor import Finding
from plat.store.home import Home
from plat.units import are, counted, size, were

if TYPE_CHECKING:
    from plat.store.mlflow.verify import StoreCheck

SHOWN = 10  # runs named
FIX = "`plat doctor --deep --fix` restores the store from the run directories, and keeps a copy of it"


def check_results(home: Home, uri: str, fix: bool) -> list[Finding]:
    """Return the findings of a value-by-value check of the store; with `fix`, repair it and check it again."""
    from plat.store.mlflow.importer import import_runs
    from plat.store.mlflow.uri import sqlite_path
    from plat.store.mlflow.verify import repair_store, verify_store

    if not home.runs.is_dir():
        return [Finding("ok", "no runs to check")]
    try:
        path = sqlite_path(uri)
        if fix and path is not None and not path.exists():  # e.g. an earlier repair was killed
            import_runs(home, uri)
            done = Finding("ok", "there was no store: it was filled from the run directories")
        else:
            check = verify_store(home, uri)
            kept = repair_store(home, uri, check) if fix else None
            if kept is None:
                return list(_findings(check, uri))
            number = len(check.differing)
            fixed = f"the file ({check.file}) was" if check.file else f"{counted(number, 'run')} {were(number)}"
            done = Finding("ok", f"{fixed} fixed; the store as it was is {kept}")
        forget(home)  # reports may have been made from wrong values
        return [done, *_findings(verify_store(home, uri), uri)]
    except PlatError as error:
        return [Finding("error", error.what, error.fix or "")]


def _findings(check: StoreCheck, uri: str) -> Iterator[Finding]:
    from plat.store.mlflow.uri import gc_command

    if check.file:
        yield Finding("error", f"the store's file is damaged: {check.file}", FIX)
        return
    for run_id, problem in list(check.differing.items())[:SHOWN]:
        yield Finding("error", f"run {run_id}: {problem}", FIX)
    for run_id, damage in list(check.damaged.items())[:SHOWN]:
        yield Finding("error", f"run {run_id}: its directory is damaged: {damage}", damage.fix)
    more = sum(max(0, len(runs) - SHOWN) for runs in (check.differing, check.damaged))
    if more:
        yield Finding("error", f"and {more} more runs")
    if check.absent:
        says = f"{counted(len(check.absent), 'run')} {are(len(check.absent))} not in the store yet"
        yield Finding("warning", f"{says}: {_names(check.absent)}", "`plat sync` copies them")
    if check.behind:
        says = f"{counted(len(check.behind), 'run')} not compared: {_names(check.behind)}"
        yield Finding("warning", says, "`plat sync` first")
    if check.deleted:
        says = f"{counted(len(check.deleted), 'run')} deleted in MLflow, not compared: {_names(list(check.deleted))}"
        command = gc_command(uri, list(check.deleted.values()))
        fix = f"restore them in MLflow, or delete them for good and import them again: {command}"
        yield Finding("warning", says, fix)
    if check.twins:
        says = f"{counted(len(check.twins), 'twin')} in MLflow's bin: several homes created the same run together"
        yield Finding("warning", says, "`plat gc` with the same --store removes them")
    alone = f"; not checked: {counted(check.alone, 'stored run')} without a directory here" if check.alone else ""
    if not check.differing and not check.damaged:
        compared = f"{counted(check.runs, 'stored run')} compared with their directories"
        yield Finding("ok", f"{compared}: all {check.values} values are equal{alone}")


def check_kept_files(home: Home) -> list[Finding]:
    """Compare every artifact with its recorded hash and return the findings; [] if the home has no artifact."""
    from plat.store.run_directory.artifact_files import check_artifacts

    check, findings = check_artifacts(home.all_runs()), []
    for run_id, problem in list(check.damaged.items())[:SHOWN]:
        fix = "bring the folder back from a copy, or remove the run's directory and sweep again"
        findings.append(Finding("error", f"run {run_id}: {problem}", fix))
    if len(check.damaged) > SHOWN:
        findings.append(Finding("error", f"and {len(check.damaged) - SHOWN} more with damaged artifacts"))
    if check.absent:
        says = f"{counted(len(check.absent), 'run')} whose artifacts are not in this home: {_names(check.absent)}"
        findings.append(Finding("warning", says))
    if check.artifacts:
        checked = f"{counted(check.artifacts, 'artifact')} checked, {size(check.bytes)}"
        findings.append(Finding("ok", f"{checked}: all hashes match the recorded ones"))
    return findings


def _names(runs: Sequence[str]) -> str:
    return ", ".join(runs[:SHOWN]) + (f" and {len(runs) - SHOWN} more" if len(runs) > SHOWN else "")
