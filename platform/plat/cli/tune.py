"""`plat tune`: search over options of runs, confirm the winner on fresh seeds, and report both."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from plat.cli import reports
from plat.cli.common import Arguments, HomeOption, JobsOption, StealOption, StoreOption, split, warn_of_idle
from plat.cli.exit_codes import RUNS_FAILED
from plat.cli.missing_runs import conclude, make_home, run_missing
from plat.cli.output import tell
from plat.cli.place import OnOption, chosen_place, warn_of_machine
from plat.cli.settings import verb
from plat.cores import usable_cores
from plat.errors import SpecError
from plat.outcomes import PRUNED
from plat.store.home import Home
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.cli.place import Place
    from plat.dispatch.report import SweepReport
    from plat.search.search import Search
    from plat.search.summary import Summary
    from plat.spec.experiment import Experiment

LEFT_OUT_MEND = "`plat why RUN` says what is known of it"
ON_A_CLUSTER = 10  # runs under way at once, where --jobs does not say


@verb(reads_trainers=True)
def tune(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    on: OnOption = "local",
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Search over options of runs; confirm the winner.

    A search file is an experiment file with `space`, `objectives`, `trials` and `seeds`. Given again, it goes on where
    it was; `trials=40` makes the study longer. For example: plat tune sweeps/keep_rate.yaml trials=10
    """
    from plat.cli.tune_report import print_summaries, report_search
    from plat.plan.check import check_machine

    target = chosen_place(arguments, on, wait=True)
    searches = load_searches(arguments)
    warn_of_idle_search(searches[0])
    place = Home.find(home)
    uri = place.store_uri(store)
    if target.is_here:
        check_machine(searches[0].corner_runs(), place)
    make_home(place, uri, target)
    summaries: list[Summary] = []
    worst = 0
    for search in searches:
        report, summary, experiment = _search(place, uri, search, jobs, steal, target)
        code = conclude(report, "tune")
        if report.interrupted:
            return code
        print(report_search(place, uri, summary, experiment), end="")
        for name, problem in summary.left_out.items():
            print(f"warning: {name} is left out of the winner's values: {problem} ({LEFT_OUT_MEND})", file=sys.stderr)
        summaries.append(summary)
        worst = max(worst, code, RUNS_FAILED if summary.left_out or not summary.winners else 0)
    if len(summaries) > 1:
        print_summaries(summaries)
    return worst


def names_search(arguments: Arguments) -> bool:
    """Whether the first file on a command line is a search file."""
    files, _ = split(arguments)
    if not files or not files[0].is_file():
        return False
    from plat.search.file import is_search

    return is_search(files[0])


def plan_searches(arguments: Arguments, home: Home) -> int:
    """Print what the searches of a file would do, and how far they are."""
    from plat.cli.tune_report import render_plan

    searches = load_searches(arguments)
    warn_of_idle_search(searches[0])
    warn_of_machine(searches[0].corner_runs(), home)
    print("\n\n".join(render_plan(home, search) for search in searches))
    print(f"home: {reports.shown(home.root)}")
    return 0


def load_searches(arguments: Arguments) -> list[Search]:
    """The searches of the one file that is named, under the overrides.

    SpecError when it is not one file, or when a trainer refuses a corner of the space.
    """
    from plat.plan.check import check_runs
    from plat.search.file import read_searches

    files, overrides = split(arguments)
    if len(files) != 1:
        raise SpecError(
            "`plat tune` takes one search file" + (f", and {len(files)} are named" if files else ""),
            where="the command line",
            mend="for example: plat tune sweeps/keep_rate.yaml",
        )
    searches = read_searches(files[0], overrides)
    check_runs(searches[0].corner_runs())
    return searches


def warn_of_idle_search(search: Search) -> None:
    """Say on stderr what of a search changes nothing at any corner of its space, which stand for the whole of it.

    Parameters of the space, what the command line gives, and values of `base` unless overrides may have made them so.
    """
    from plat.plan.check import idle_overrides

    runs = search.corner_runs()
    varied = {
        name: {assignment.key for value in parameter.corners() for assignment in parameter.overrides(value)}
        for name, parameter in search.space.items()
    }
    keys = set().union(*varied.values())
    idle = idle_overrides(runs, sorted(keys))
    for name, changed in varied.items():
        if changed and changed <= idle.keys():
            tell(f"warning: {search.path}: the trials cannot differ in {name}: {idle[min(changed)]}")
    warn_of_idle(runs, search.overrides)
    base = {} if search.overrides else {part.key: part for part in search.base if part.key not in keys}
    for key, reason in idle_overrides(runs, base).items():
        tell(f"warning: {base[key].key_place()}: {key} has no effect: {reason}")


def _search(
    home: Home, uri: str, search: Search, jobs: int | None, steal: bool, target: Place
) -> tuple[SweepReport, Summary, Experiment]:
    """Do what is left of one search; how its runs ended, what it has come to, and the search as the store knows it."""
    from plat.search.source import TrialSource
    from plat.search.study import open_study
    from plat.search.summary import summarise

    threads = max(1, Resources.of(search.first_run.resources).threads)
    here = max(1, usable_cores() // threads)
    with open_study(home, search) as study:
        source = TrialSource(home, search, study, jobs or (here if target.on == "local" else ON_A_CLUSTER))
        experiment = search.experiment(source.runs)
        report = run_missing(home, uri, source, [experiment], jobs=jobs, steal=steal, target=target)
        report.ends = {key: end for key, end in report.ends.items() if end.outcome != PRUNED}
        once = list({run.id: run for run in source.runs}.values())
        return report, summarise(home, search, study), replace(experiment, runs=once)
