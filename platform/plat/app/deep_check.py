"""`plat doctor --deep`: check that the store has what the run directories recorded, repair it, and check artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from plat.app.freshness import forget
from plat.errors import PlatError
from plat.plugins.doctor import Finding
from plat.store.home import Home
from plat.units import are, counted, size, were

if TYPE_CHECKING:
    from plat.store.mlflow.checking import StoreCheck

SHOWN = 10  # runs named
FIX = "`plat doctor --deep --fix` restores the store from the run directories"


def check_results(home: Home, uri: str, fix: bool) -> list[Finding]:
    """Return the findings of a check of every stored run; with `fix`, repair the store and check it again."""
    from plat.store.mlflow.checking import check_runs, repair

    if not home.runs.is_dir():
        return [Finding("ok", "no runs to check")]
    try:
        check = check_runs(home, uri)
        if not fix or not (check.file or check.differing):
            return list(_findings(check, uri))
        kept = repair(home, uri, check)
        if kept is None:
            number = len(check.differing)
            done = Finding("ok", f"{counted(number, 'run')} {were(number)} written again from the run directories")
        else:
            done = Finding("ok", f"the file ({check.file}) was fixed; the store as it was is {kept}")
        forget(home)  # reports may have been made from wrong values
        return [done, *_findings(check_runs(home, uri), uri)]
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
    if check.behind:
        says = f"{counted(len(check.behind), 'run')} {are(len(check.behind))} not in the store yet, or changed since"
        yield Finding("warning", f"{says}: {_names(check.behind)}", "`plat sync` copies them")
    if check.deleted:
        says = f"{counted(len(check.deleted), 'run')} deleted in MLflow, not compared: {_names(list(check.deleted))}"
        command = gc_command(uri, list(check.deleted.values()))
        fix = f"restore them in MLflow, or delete them for good and import them again: {command}"
        yield Finding("warning", says, fix)
    if check.twins:
        says = f"{counted(len(check.twins), 'twin')} in MLflow's bin: several homes created the same run together"
        yield Finding("warning", says, f"remove them: {gc_command(uri, check.twins)}")
    alone = f", {check.alone} of them without a directory here" if check.alone else ""
    if not check.differing and not check.damaged:
        yield Finding("ok", f"{counted(check.runs, 'stored run')}{alone}: every artifact is the one that was logged")


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
