"""`plat sweep`: do the missing runs and print the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    settings,
    verb,
    with_decide,
)
from plat.cli.screen import report_text
from plat.cli.screen.failure_words import conclude
from plat.cli.screen.notify import Notifier, NotifyOption
from plat.cli.verbs.plan import plan
from plat.store.home import Home
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.sweep_ends import SweepReport
    from plat.spec.expansion.experiment import Experiment, Run


@verb(reads_trainers=True)
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
) -> int:
    """Run what is missing and print the report.

    With --decide, or `decide:` in the file, seeds are added look by look, for the rows of claims that are still open.

    The same command again runs only what is missing; after Ctrl-C or a kill it resumes. On slurm it submits what is
    missing and returns; `plat status` and `plat report` show the rest. After a run that logs no metric, or three that
    fail alike, nothing more starts.
    """
    from plat.dispatch.progress import Progress, choose

    arguments = with_decide(arguments, decide)
    target = chosen_place(arguments, on, wait)
    if dry_run:
        return plan(arguments, jobs, False, home, store)
    experiments = load_experiments(arguments, home=home)
    place = Home.find(home)
    uri = place.store_uri(store)
    printed = [freshness.recall(place, uri, experiment, report_text.layout(quiet)) for experiment in experiments]
    if all(text is not None for text in printed):
        if not quiet:
            print("nothing to do: every run is done, and the report is up to date\n")
        print("\n".join(text for text in printed if text), end="")
        return 0
    asked = Sweep(place, uri, target, jobs, steal)
    runs = check_sweep(asked, experiments, split(arguments)[1])
    notifier = Notifier(notify, place, experiments)

    def run(some: list[Run]) -> SweepReport:
        progress = Progress() if quiet else choose(each=settings.verbose)
        some = first_missing(some, place, first)
        ended = notifier.run_ended
        return run_missing(asked, some, experiments, fail_fast=not keep_going, progress=progress, on_ended=ended)

    if any(experiment.decide for experiment in experiments):
        say: Callable[[str], None] = (lambda line: None) if quiet else print
        report = run_looks(asked, experiments, run, say, once=first is not None)
    else:
        report = run(runs)
    are_whole = True
    if not report.interrupted and not (report.detached and report.counts().get(RunStatus.QUEUED)):
        are_whole = _print_reports(place, uri, experiments, report, quiet)
    exit_code = conclude(report)
    if not are_whole:
        exit_code = exit_code or RUNS_FAILED
    notifier.sweep_ended(report, exit_code)
    return exit_code


def _print_reports(home: Home, uri: str, experiments: Sequence[Experiment], report: SweepReport, quiet: bool) -> bool:
    """Print all reports and remember complete ones of done runs; False when a part could not be made."""
    are_whole = True
    for experiment in experiments:
        made = report_making.make_report(home, uri, experiment)
        text = report_text.printed(made, quiet)
        if made.whole and all(_is_done(report, run) for run in experiment.runs):
            freshness.remember(home, uri, experiment, report_text.layout(quiet), text, made.files)
        print(text, end="")
        are_whole = are_whole and made.whole
    return are_whole


def _is_done(report: SweepReport, run: Run) -> bool:
    """Return True if the sweep has or found a result of this run; `--first` leaves runs out."""
    return run.id in report.ends and report.ends[run.id].state == RunStatus.DONE
