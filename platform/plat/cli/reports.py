"""The report of one experiment: built, written, logged into MLflow and rendered for the terminal."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.cli.common import on_terminal
from plat.cli.importing import load_results, unless_archived
from plat.plan.other_versions import other_versions
from plat.store.home import Home
from plat.store.report_folder import write_whole
from plat.trainer.plugins import published
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames
    from plat_analysis.report.provenance import Provenance
    from plat_analysis.report.report import Report


@dataclass(frozen=True)
class MadeReport:
    """What to print, the files written, and whether everything that the file asks for is in them; `built` is what they
    were written from."""

    printed: str
    files: list[Path]
    whole: bool
    built: Report


def make_report(
    home: Home, uri: str, experiment: Experiment, out: Path | None = None, *, record: bool = True
) -> MadeReport:
    """Build, write and log the report of one experiment. A part that cannot be made is named; the others are made.

    Of a home that is there to be read only, the report is printed alone, unless `out` says where its files go.
    Without `record`, the store stays as it is.
    """
    from plat.store.mlflow.frames import Store
    from plat_analysis.report.build import build_report
    from plat_analysis.report.files import write_report
    from plat_analysis.report.recorded import recorded

    frames = load_results(home, uri, experiment, mend=record)
    notes = (*_removed(home, list(frames.runs["run_id"])), *_changed(frames))
    notes += (*other_versions(experiment.runs, home), *(() if record else _behind(home, experiment, frames)))
    built = build_report(frames, experiment, replace(provenance(experiment), notes=notes))
    whole = not built.failures and not frames.changed
    if out is None and is_read_only(home):
        unwritten = f"nothing was written: {home.root} is read-only; `--out DIR` writes the report elsewhere\n"
        return MadeReport(rendered(built) + unwritten, [], whole, built)
    folder = out or home.create().reports / experiment.report_name
    written = write_report(built, out) if out else write_whole(partial(write_report, built), folder)
    if record:
        with unless_archived(home, uri, "the report is not logged into MLflow"):
            Store(uri, home).log_report(experiment, written, recorded(built))
    printed = rendered(built) + _paths(folder, written.values())
    return MadeReport(printed, list(written.values()), whole, built)


def is_read_only(home: Home) -> bool:
    """Whether a home is there and may only be read."""
    return home.exists() and not os.access(home.root, os.W_OK)


def provenance(experiment: Experiment) -> Provenance:
    """What the report's page says of how it was made: the command, as it may be given again here, and versions."""
    from plat import __version__
    from plat_analysis.report.provenance import Provenance

    command = shlex.join(["plat", "report", os.path.relpath(experiment.path), *experiment.overrides])
    builders, checks = published("plat.reports"), published("plat.claims")
    used = [builders.get(str(entry.get("builder"))) for entry in experiment.report]
    used += [checks.get(str(entry.get("check"))) for entry in experiment.claims]
    versions = {point.dist.name: point.dist.version for point in used if point is not None and point.dist is not None}
    return Provenance(command, experiment.overrides, {**versions, "plat": __version__})


def _removed(home: Home, stored: Sequence[str]) -> tuple[str, ...]:
    """What to say of stored runs whose directories somebody removed; nothing where no run was made in this home."""
    gone = [run_id for run_id in stored if not home.run(run_id).root.exists()]
    if not gone or len(gone) == len(stored):
        return ()
    names = ", ".join(run_id[:8] for run_id in gone[:5]) + (", ..." if len(gone) > 5 else "")
    text = (
        f"{len(gone)} of {len(stored)} runs ({names}) were removed from the home; what the store holds of them is shown"
    )
    return (f"{text}. `plat sweep` does them again.",)


def _changed(frames: Frames) -> tuple[str, ...]:
    """What to say of runs that were changed in the store and could not be brought back."""
    names = ", ".join(run_id[:8] for run_id in list(frames.changed)[:5]) + (", ..." if len(frames.changed) > 5 else "")
    text = f"{counted(len(frames.changed), 'run')} ({names}) changed in the store since the import: left out."
    return (text,) if frames.changed else ()


def _behind(home: Home, experiment: Experiment, frames: Frames) -> tuple[str, ...]:
    """What to say of runs that have a result here which the store does not have."""
    stored = {run_id for run_id, outcome in zip(frames.runs["run_id"], frames.runs["outcome"], strict=True) if outcome}
    behind = [run.id for run in experiment.runs if run.id not in stored and home.run(run.id).result.exists()]
    text = (
        f"{counted(len(behind), 'run')} with a result {are(len(behind))} not in the store yet; `plat sync` copies them."
    )
    return (text,) if behind else ()


def check_report(experiment: Experiment) -> None:
    """SpecError when the file's report or claims cannot be made; better now than after an hour of training."""
    if experiment.report or experiment.claims:
        from plat_analysis.plugins.checking import check_entries

        check_entries(experiment)


def check_reference(experiment: Experiment) -> None:
    """Say on stderr why runs cannot be compared with the reference results; BundleError when these are damaged."""
    folder = experiment.reference_folder
    if folder is None:
        return
    if not folder.exists():
        print(f"warning: {experiment.path.name}: there are no reference results in {folder}", file=sys.stderr)
        return
    from plat_analysis.reference.runs import reference_problem

    if problem := reference_problem(experiment):
        print(f"warning: {problem}", file=sys.stderr)


def rendered(built: Any) -> str:
    """The report as the terminal shows it."""
    import io

    from rich.console import Console

    from plat_analysis.report.print_report import print_report

    text = io.StringIO()
    console = Console(file=text, force_terminal=on_terminal(), width=width(), highlight=False)
    print_report(built, console)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def width() -> int:
    """Columns of the terminal; a pipe gets room for every column."""
    if on_terminal():
        return shutil.get_terminal_size((160, 40)).columns
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else 160


def layout() -> str:
    """The shape of what is printed: under one layout, the same report is the same text."""
    return f"{width()} {'colour' if on_terminal() and 'NO_COLOR' not in os.environ else 'plain'}"


def _paths(folder: Path, files: Any) -> str:
    """The lines that say where the report is: the page first, then the folder."""
    pages = [path for path in files if path.suffix == ".html"]
    lines = [f"report: {shown(path)}" for path in pages]
    return "\n".join([*lines, f"tables and figures: {shown(folder)}/"]) + "\n"


def shown(path: Path) -> str:
    """A path as a reader would type it: relative where that is shorter."""
    try:
        relative = str(path.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
    return relative
