"""Build the reports of experiments, write their files and log them into MLflow.

Several files share one page; a file with a mistake is named, and the reports of the others are built.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from plat.app.deciding import plan_note
from plat.app.exploring import explorer_beside, joint_explorer
from plat.app.importing import load_results, unless_archived
from plat.app.loading import load_experiments, split
from plat.app.messages import tell
from plat.errors import PlatError
from plat.planning.changed_code import Earlier, changed_code, made_before, other_versions
from plat.plugins.loading import published
from plat.store.disk.durable import replace_report
from plat.store.home import Home
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment
    from plat.store.mlflow.frames import Frames
    from plat.words.usage import Rates
    from plat_analysis.report.report import Provenance, Report
    from plat_analysis.report.verdicts import Judged

LONGEST_NAME = 80  # characters of the folder of a joint page
T = TypeVar("T")


@dataclass(frozen=True)
class MadeReport:
    """A report that was built.

    built        the report, with tables, figures and verdicts
    folder       the folder of its files; None where nothing was written
    files        the files written
    whole        True when no part of the report failed and no stored run had to be left out
    kept         why nothing was written, in words; "" where files are
    is_outdated  True where the report of earlier code was kept, because more runs are done with it
    """

    built: Report
    folder: Path | None
    files: list[Path]
    whole: bool
    kept: str = ""
    is_outdated: bool = False


def make_report(
    home: Home,
    uri: str,
    experiment: Experiment,
    out: Path | None = None,
    *,
    record: bool = True,
    explorer: bool = False,
    rates: Rates | None = None,
) -> MadeReport:
    """Build, write and log the report of one experiment. Parts that fail are in `built.failures`; others are built.

    Unless `out` names a folder, nothing is written in a read-only home, nor where the code has changed and fewer runs
    are done with it than were before: the earlier report is kept. With `record`, runs that were changed in the store
    are first imported again, and the report is logged there; without it, the store is not changed.
    With `explorer`, `explore.html` is written, too, which takes some seconds. With `rates`, the page says what the runs
    cost.
    """
    from plat.store.mlflow.frames import Store
    from plat_analysis.report.recorded_report import recorded
    from plat_analysis.report.report_files import report_files, write_files

    earlier = made_before(experiment.runs, home)
    built, frames = built_report(home, uri, replace(provenance(experiment), rates=rates), experiment, earlier, record)
    whole = not built.failures and not frames.changed
    if out is None and is_read_only(home):
        why = f"{home.root} is read-only; `--out DIR` writes the report elsewhere"
        return MadeReport(built, None, [], whole, why)
    if out is None and earlier and len(earlier) > sum(map(bool, frames.runs["outcome"])):
        why = f"more runs are done with the earlier code, so the report of these is kept in {home.reports}"
        return MadeReport(built, None, [], whole, why, is_outdated=True)
    folder = out or home.create().reports / experiment.report_name
    if out is None:
        _name_replaced(folder, experiment.path)
    pages = explorer_beside(home, uri, built, folder) if explorer else {}  # first: the report names what failed in it
    files = report_files(built)
    write = partial(write_files, {**files, **pages})
    written = write(out) if out else replace_report(write, folder)
    if record:
        with unless_archived(home, uri, "the report is not logged into MLflow"):
            logged = {name: written[name] for name in files}  # links of the explorer lead to folders of this machine
            Store(uri, home).log_report(experiment, logged, recorded(built))
    return MadeReport(built, folder, list(written.values()), whole and not built.build_failures)


def built_report(
    home: Home, uri: str, known: Provenance, experiment: Experiment, earlier: Mapping[str, Earlier], record: bool = True
) -> tuple[Report, Frames]:
    """Return the report of one experiment and the results that it was built of; writes no file.

    Args:
        known: what its page says of its origin; notes on the runs and the plan of `decide` are added.
        earlier: run id -> the run that was made with other code (`made_before`).
        record: runs that were changed in the store are first imported again.
    """
    from plat_analysis.report.build import build_report

    frames = load_results(home, uri, experiment, fix=record)
    notes, (plan, is_written) = _notes(home, experiment, frames, record, earlier), plan_note(home, uri, experiment)
    notes = (*notes, f"{plan}.") if plan and not is_written else notes
    plan = f"{plan}; intervals of tables and figures make no allowance for its looks" if is_written else ""
    return build_report(frames, experiment, replace(known, notes=notes, plan=plan)), frames


def _name_replaced(folder: Path, path: Path) -> None:
    """Warn if a report replaces that of another file of the same name, and note whose report it is."""
    note = folder.with_name(f".{folder.name}.file")
    if note.is_file() and os.path.isfile(other := note.read_text()) and not filecmp.cmp(other, path):
        tell(f"warning: {path}: its report replaces that of {other}, which has the same name: rename one of them")
    folder.parent.mkdir(exist_ok=True)
    note.write_text(str(path.resolve()))


def is_read_only(home: Home) -> bool:
    """Return True if the folder is a home (see `Home.exists`) that this process may not write to."""
    return home.exists() and not os.access(home.root, os.W_OK)


def provenance(experiment: Experiment) -> Provenance:
    """Return what the report's page records: the command that makes it again, overrides and package versions."""
    from plat import __version__
    from plat_analysis.report.report import Provenance

    command = shlex.join(["plat", "report", os.path.relpath(experiment.path), *experiment.overrides])
    builders, checks = published("plat.reports"), published("plat.claims")
    used = [builders.get(str(entry.get("builder"))) for entry in experiment.report]
    used += [checks.get(str(entry.get("check"))) for entry in experiment.claims]
    versions = {point.dist.name: point.dist.version for point in used if point is not None and point.dist is not None}
    return Provenance(command, experiment.overrides, {**versions, "plat": __version__})


def _notes(
    home: Home, experiment: Experiment, frames: Frames, record: bool, earlier: Mapping[str, Earlier]
) -> tuple[str, ...]:
    """Return notes on runs of other code, removed, changed in the store, made by another version, or not imported.

    Also what runs themselves have noted, such as a column of metrics that could not be read.
    """
    notes, stored = changed_code(experiment.runs, home, earlier), list(frames.runs["run_id"])
    if earlier:
        notes.append(f"`{provenance(experiment).command} --code-of-runs` reports the runs of the earlier code.")
    gone = [run_id for run_id in stored if not home.run(run_id).root.exists()]
    if gone and len(gone) < len(stored):  # a home that has none of them is not where they ran
        text = f"{len(gone)} of {len(stored)} runs ({_first_five(gone)}) were removed from the home"
        notes.append(f"{text}; the report shows what the store has of them. `plat sweep` does them again.")
    if frames.changed:
        runs = f"{counted(len(frames.changed), 'run')} ({_first_five(list(frames.changed))})"
        notes.append(f"{runs} changed in the store since the import; the report leaves them out.")
    said = frames.runs.get("tag.plat.summary.notes", [None] * len(stored))
    noted = {run_id: text for run_id, text in zip(stored, said, strict=True) if isinstance(text, str)}
    if noted:
        runs, first = f"{counted(len(noted), 'run')} ({_first_five(list(noted))})", next(iter(noted))
        notes.append(f"{runs} noted something about metrics. {first[:8]}: {noted[first]} (`plat why {first[:8]}`)")
    notes += other_versions(experiment.runs, home)
    ended = {run_id for run_id, outcome in zip(stored, frames.runs["outcome"], strict=True) if outcome}
    behind = [run.id for run in experiment.runs if run.id not in ended and home.run(run.id).result.exists()]
    if behind and not record:
        text = f"{counted(len(behind), 'run')} with a result {are(len(behind))} not in the store yet"
        notes.append(f"{text}; `plat sync` copies them.")
    return tuple(notes)


def _first_five(run_ids: Sequence[str]) -> str:
    return ", ".join(run_id[:8] for run_id in run_ids[:5]) + (", ..." if len(run_ids) > 5 else "")


def judged(home: Home, uri: str, experiment: Experiment) -> tuple[Judged, bool]:
    """Return the verdicts on the claims of a file, and False if stored results had to be left out, else True.

    First imports runs again that were changed in the store. Raises StoreError if the store cannot be read.
    """
    from plat_analysis.claims.engine import check_claims
    from plat_analysis.claims.reference import reference_beside
    from plat_analysis.report.verdicts import Judged

    frames = load_results(home, uri, experiment)
    verdicts = check_claims(frames, experiment)
    tell_plan(home, uri, experiment)
    return Judged(experiment, verdicts, reference_beside(experiment, verdicts)), not frames.changed


def tell_plan(home: Home, uri: str, experiment: Experiment) -> None:
    """Tell by which plan the claims of a file with `decide` are decided, or that it has none."""
    plan, is_written = plan_note(home, uri, experiment)
    if plan:
        tell(f"note: decided by the plan {plan}" if is_written else f"warning: {plan}")


def tell_changed_code(home: Home, experiments: Iterable[Experiment]) -> Mapping[str, Earlier]:
    """Tell what has changed in the code of runs; return the runs that were made with other code (`made_before`)."""
    runs = [run for experiment in experiments for run in experiment.runs]
    earlier = made_before(runs, home)
    for line in changed_code(runs, home, earlier):
        tell(f"note: {line}")
    if earlier:
        tell("note: --code-of-runs judges the runs of the earlier code")
    return earlier


class Tolerant:
    """Collects the PlatErrors of calls in `failed`, in order, so that a failing file does not stop the others.

    With `several` False there are no others, and every error is raised.
    """

    def __init__(self, several: bool) -> None:
        self.several = several
        self.failed: list[PlatError] = []

    def call(self, function: Callable[..., T], *arguments: Any) -> T | None:
        """Return the result of the function. If it raises a PlatError, tell it once, keep it, and return None."""
        try:
            return function(*arguments)
        except PlatError as error:
            if not self.several:
                raise
            if error.render() not in [earlier.render() for earlier in self.failed]:
                tell(error.render())
            self.failed.append(error)
            return None

    def load(
        self, files: Iterable[Path], overrides: Sequence[str], home: str | None, without_file: str
    ) -> list[Experiment]:
        """Return the experiments of all valid files with different names. Raises the first PlatError if there is none.

        `home` is the verb's --home, `without_file` the advice of the SpecError if no file is named.
        """
        from plat.spec.expansion.experiment import check_apart

        if not self.several:
            return load_experiments(
                [*map(str, files), *overrides], home=home, without_file=without_file, from_home=True
            )
        loaded: list[Experiment] = []
        files = list(files)

        def load(file: Path) -> None:
            (experiment,) = load_experiments([str(file), *overrides], home=home, from_home=True)
            check_apart(experiment, loaded)
            loaded.append(experiment)

        for file in files:
            self.call(load, file)
        if not loaded:
            raise self.failed[0]
        return loaded


def write_joint(
    home: Home,
    uri: str,
    built: Sequence[Report],
    failed: Sequence[PlatError],
    arguments: Sequence[str],
    out: Path | None,
) -> Path | None:
    """Write the page of all reports, and their explorer; return the path; None in a read-only home without `out`.

    `failed` are the errors shown on the page; `arguments` are the files and overrides of the command shown there.
    """
    from plat_analysis.plugins.builders import Failure
    from plat_analysis.report.report_files import joint_files, write_files

    if out is None and is_read_only(home):
        return None
    folder = out or home.create().reports / joint_name([report.experiment for report in built])
    here = f"{os.getcwd()}{os.sep}"  # a page holds no absolute path
    failures = [Failure(error.what, str(error.where or "").replace(here, ""), error.fix or "") for error in failed]
    named, overrides = split(arguments)
    command = ["plat", "report", *map(os.path.relpath, named), *overrides]
    files = joint_files(built, failures, shlex.join(command)) | joint_explorer(home, uri, built, folder)
    write = partial(write_files, files)
    written = write(out) if out else replace_report(write, folder)
    page: Path = written["report.html"]
    return page


def joint_name(experiments: Sequence[Experiment]) -> str:
    """Return the folder name `table4+table6`, with the overrides' mark; no single file's name contains a `+`.

    Beyond LONGEST_NAME characters: the first file's name, the number of the others, and a hash of all names.
    """
    names = [experiment.name for experiment in experiments]
    mark = f"@{experiments[0].mark}" if experiments[0].mark else ""
    name = "+".join(names)
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256("+".join(sorted(names)).encode()).hexdigest()[:8]
        name = f"{names[0][:40]}+{len(names) - 1}-more-{digest}"
    return name + mark
