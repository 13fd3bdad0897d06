"""`plat sweep`: do the missing runs and print the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from plat.app import freshness, report_making
from plat.app.deciding import run_looks
from plat.app.loading import load_experiments, split
from plat.app.sweeping import Sweep, check_sweep, chosen_place, first_missing, run_missing
from plat.cli.common import (
    RUNS_FAILED,
    Arguments,
    DecideOption,
    HomeOption,
    JobsOption,
    OnOption,
    QuietOption,
    StealOption,
    StoreOption,
    WaitOption,
    verb,
    with_decide,
)
from plat.cli.result import Result, made, print_event, settings
from plat.cli.schemas.results import SweepData
from plat.cli.screen import report_text
from plat.cli.screen.failure_words import conclude
from plat.cli.screen.json_lines import ends_data, progress_of_verb
from plat.cli.screen.notify import Notifier, NotifyOption
from plat.cli.verbs.plan import planned
from plat.dispatch.sweep_ends import SweepReport
from plat.store.home import Home
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.app.report_making import MadeReport
    from plat.app.sweeping import Place
    from plat.spec.expansion.experiment import Experiment, Run


@verb(SweepData, reads_trainers=True, lines=True)
def sweep(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="The same as `plat plan`.")] = False,
    first: Annotated[
        int | None, typer.Option("--first", min=1, metavar="N", help="Only the first N missing runs.")
    ] = None,
    decide: DecideOption = False,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after failures that further runs will repeat.")
    ] = False,
    steal: StealOption = False,
    on: OnOption = "local",
    wait: WaitOption = None,
    notify: NotifyOption = None,
    home: HomeOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
) -> Result:
    """Run what is missing and print the report.

    With --decide, or `decide:` in the file, seeds are added look by look, for the rows of claims that are still open.

    The same command again runs only what is missing; after Ctrl-C or a kill it resumes. On slurm it submits what is
    missing and returns; `plat status` and `plat report` show the rest. After a run that logs no metric, or three that
    fail alike, nothing more starts.
    """
    target = chosen_place(arguments, on, wait)
    wanted = with_decide(arguments, decide)
    if dry_run:
        plan = planned(wanted, jobs, home, store)
        return Result(lambda: {**ends_data(SweepReport()), "plan": made(plan.data)}, plan.text)
    how = How(jobs, first, keep_going, steal, notify, quiet)
    return swept(wanted, target, how, home, store)


@dataclass(frozen=True)
class How:
    """How a sweep executes its runs: the options of `plat sweep`."""

    jobs: int | None = None
    first: int | None = None
    keep_going: bool = False
    steal: bool = False
    notify: str | None = None
    quiet: bool = False


def swept(arguments: Sequence[str], target: Place, how: How, home: str | None, store: str | None) -> Result:
    """Do the missing runs, print the report while JSON is not asked for, and return how the runs ended."""
    experiments = load_experiments(arguments, home=home)
    place = Home.find(home)
    uri = place.store_uri(store)
    layout = report_text.layout(how.quiet)
    printed = [] if settings.json else [freshness.recall(place, uri, experiment, layout) for experiment in experiments]
    if printed and all(text is not None for text in printed):
        head = "" if how.quiet else "nothing to do: every run is done, and the report is up to date\n\n"
        return Result(ends_data(SweepReport()), head + "\n".join(text for text in printed if text).removesuffix("\n"))
    asked = Sweep(place, uri, target, how.jobs, how.steal)
    runs = check_sweep(asked, experiments, split(arguments)[1])
    notifier = Notifier(how.notify, place, experiments)

    def run(some: list[Run]) -> SweepReport:
        progress = progress_of_verb(quiet=how.quiet, each=settings.verbose)
        some = first_missing(some, place, how.first)
        ended = notifier.run_ended
        return run_missing(asked, some, experiments, fail_fast=not how.keep_going, progress=progress, on_ended=ended)

    if any(experiment.decide for experiment in experiments):
        report = run_looks(asked, experiments, run, _say(how.quiet), once=how.first is not None)
    else:
        report = run(runs)
    reports: list[MadeReport] = []
    if not report.interrupted and not (report.detached and report.counts().get(RunStatus.QUEUED)):
        reports = _print_reports(place, uri, experiments, report, how.quiet)
    exit_code = conclude(report)
    if not all(one.whole for one in reports):
        exit_code = exit_code or RUNS_FAILED
    notifier.sweep_ended(report, exit_code)
    return Result(lambda: ends_data(report, reports), code=exit_code)


def _say(quiet: bool) -> Callable[[str], None]:
    """Return what shows a line after each look."""
    if settings.json:
        return lambda line: print_event("message", {"text": line})
    return (lambda line: None) if quiet else print


def _print_reports(
    home: Home, uri: str, experiments: Sequence[Experiment], report: SweepReport, quiet: bool
) -> list[MadeReport]:
    """Print and return all reports, and remember complete ones of done runs."""
    reports = []
    for experiment in experiments:
        report_made = report_making.make_report(home, uri, experiment)
        text = report_text.printed(report_made, quiet)
        if report_made.whole and all(_is_done(report, run) for run in experiment.runs):
            freshness.remember(home, uri, experiment, report_text.layout(quiet), text, report_made.files)
        if not settings.json:
            print(text, end="")
        report_made.built.release()
        reports.append(report_made)
    return reports


def _is_done(report: SweepReport, run: Run) -> bool:
    """Return True if the sweep has or found a result of this run; `--first` leaves runs out."""
    return run.id in report.ends and report.ends[run.id].state == RunStatus.DONE
