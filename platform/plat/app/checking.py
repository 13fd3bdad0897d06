"""Check experiments before their runs start, and warn on stderr about settings without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from plat.app.entries import distinct, standing
from plat.app.freshness import forget
from plat.app.messages import followed, tell
from plat.errors import PlatError, SpecError
from plat.plugins.doctor import Finding
from plat.store.home import Home
from plat.units import are, counted, size, were

if TYPE_CHECKING:
    from plat.planning.plan import Plan
    from plat.spec.expansion.experiment import Experiment, Run
    from plat.store.mlflow.checking import StoreCheck


def plan_checked(
    experiments: Sequence[Experiment], home: Home, overrides: Sequence[str], jobs: int | None = None
) -> Plan:
    """Return the plan of these experiments, after the checks and with the warnings of a sweep. Writes nothing.

    jobs  workers at once; None: as many as the cores allow

    Raises SpecError for a report entry, claim or run that cannot work.
    """
    from plat.planning import make_plan

    for experiment in experiments:
        check_report(experiment)
    made = make_plan(experiments, home, jobs=jobs, standing=standing)
    check_asked(distinct(experiments), [row.run for row in made.left], home, overrides)
    warn_of_idle_parts(experiments, overrides)
    return made


def check_asked(runs: Sequence[Run], left: Iterable[Run], home: Home, overrides: Sequence[str]) -> None:
    """Let each trainer check the runs that are `left`, and warn about changed code and overrides without effect.

    Raises SpecError for a run that cannot work.
    """
    from plat.planning.changed_code import changed_code, doubts, without_files
    from plat.planning.check import check_runs

    check_runs(followed(list(left), "checking runs"))
    for line in [*without_files(runs), *doubts(runs), *changed_code(runs, home)]:
        tell(f"note: {line}")
    warn_of_idle(runs, overrides)


def check_report(experiment: Experiment) -> None:
    """Tell which entries of the file's report and claims overrides leave without their runs. Needs no results.

    Raises SpecError if an entry cannot work.
    """
    if experiment.report or experiment.claims:
        from plat_analysis.plugins.entry_checking import check_entries

        for note in check_entries(experiment):
            tell(f"note: {note}")


def claims_foreseen(experiments: Sequence[Experiment]) -> dict[str, dict[str, list[str]]]:
    """Return name of a file -> id of a claim -> lines on what its runs can show at best, where its check knows it."""
    if not any(experiment.claims for experiment in experiments):
        return {}
    from plat_analysis.plugins.entry_checking import foreseen

    found = {experiment.name: foreseen(experiment) for experiment in experiments}
    return {
        name: {claim: lines for claim, lines in of.items() if lines} for name, of in found.items() if any(of.values())
    }


def foreseen_lines(claims: dict[str, dict[str, list[str]]]) -> list[str]:
    """Return the lines of `claims_foreseen` as text below a heading; [] without any. Rows that agree share a line."""
    lines = []
    for of_file in claims.values():
        for claim, rows in of_file.items():
            same = {row.partition(": ")[2] for row in rows}
            lines += [f"  {claim}: {row}" for row in (same if len(same) == 1 and len(rows) > 1 else rows)]
    return ["claims over settings, at best:", *lines] if lines else []


def check_reference(experiment: Experiment) -> None:
    """Warn on stderr when runs cannot be compared with the reference results; BundleError when these are damaged."""
    folder = experiment.reference_folder
    if folder is None:
        return
    if not folder.exists():
        tell(f"warning: {experiment.path.name}: there are no reference results in {folder}")
        return
    from plat_analysis.reference.reference_runs import reference_problem

    if problem := reference_problem(experiment):
        tell(f"warning: {problem}")


def warn_of_idle(runs: Sequence[Run], overrides: Sequence[str]) -> None:
    """Warn on stderr about overrides of the command line that have no effect in any of the runs."""
    from plat.planning.check import idle_overrides

    for key, reason in idle_overrides(runs, _keys_of(overrides)).items() if runs and overrides else ():
        tell(f"warning: {key} has no effect: {reason}")


def warn_of_idle_parts(experiments: Sequence[Experiment], overrides: Sequence[str]) -> None:
    """Warn on stderr about axes and `base` values of the files that have no effect, or only at some positions.

    Axes that an override sets are skipped. The values of `base` are checked only without overrides.
    """
    from plat.planning.check import idle_overrides, shared_positions

    for experiment in experiments:
        axes = [axis for axis, values in experiment.axes.items() if len(values) > 1 and axis not in _keys_of(overrides)]
        idle = idle_overrides(experiment.runs, axes)
        for axis, reason in idle.items():
            tell(f"warning: {experiment.path}: the runs of the axis {axis} cannot differ: {reason}")
        for keys, (number, reason) in shared_positions(experiment).items():
            if not idle.keys() & set(keys):
                which = f"{number} of {counted(len(experiment.cells), 'position')}"
                share = "shares its run with another" if number == 1 else "share their runs with others"
                tell(f"note: {experiment.path}: {which} {share}, differing in {' and '.join(keys)} alone: {reason}")
        base = () if overrides else [key for key in experiment.base if key not in experiment.axes]
        for key, reason in idle_overrides(experiment.runs, base).items():
            tell(f"warning: {experiment.base[key]}: {key} has no effect: {reason}")


def warn_of_machine(runs: Sequence[Run], home: Home) -> None:
    """Warn on stderr if this machine is too small for one of these runs; another place may execute it."""
    from plat.planning.check import check_machine

    try:
        check_machine(runs, home)
    except SpecError as error:
        tell(f"warning: not on this machine: {error.what} (fix: {error.fix})")


def warn_of_needs(runs: Iterable[Run]) -> None:
    """Warn on stderr about what these runs need beside plat and this machine does not have, such as a server.

    Raises SpecError if a trainer refuses a run.
    """
    from plat.planning.check import need_lines, needs_of

    absent = [need for need in needs_of(runs) if need.absent]
    for line in need_lines(absent):
        tell(line if line.startswith(" ") else f"warning: a run {line}")


def _keys_of(overrides: Sequence[str]) -> list[str]:
    """Return the keys or axes that overrides set."""
    return [override.partition("=")[0].strip().removeprefix("matrix.") for override in overrides]


# `plat doctor --deep`: check that the store has what the run directories recorded, repair it, and check artifacts.

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
