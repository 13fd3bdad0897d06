"""`plat tune`: search over options of runs, confirm the winner on fresh seeds, and report both."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from plat.app.searching import check_searches, search_rest
from plat.app.sweeping import Sweep, chosen_place
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, JobsOption, OnOption, StealOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.results import TuneData
from plat.cli.screen.failure_words import conclude
from plat.store.home import Home

if TYPE_CHECKING:
    from plat.search.following import Summary

LEFT_OUT_FIX = "`plat why RUN` says what is known of it"


@verb(TuneData, reads_trainers=True, lines=True)
def tune(
    arguments: Arguments = None,
    jobs: JobsOption = None,
    steal: StealOption = False,
    on: OnOption = "local",
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Search over options of runs and confirm the winner.

    A search file is an experiment file with `space`, `objectives`, `trials` and `seeds`. The same command again resumes
    the search; `trials=40` makes the study longer. For example: plat tune search.yaml trials=10
    """
    from plat.cli.screen.json_lines import progress_of_verb
    from plat.cli.screen.tune_report import print_summaries, report_search, search_data

    place = Home.find(home)
    uri = place.store_uri(store)
    sweep = Sweep(place, uri, chosen_place(arguments, on, wait=True), jobs, steal)
    summaries: list[Summary] = []
    worst = 0
    for search in check_searches(sweep, arguments):
        report, summary, experiment = search_rest(sweep, search, progress_of_verb())
        code = conclude(report, "tune")
        if report.interrupted:
            worst = code
            break
        print(report_search(place, uri, summary, experiment), end="")
        for name, problem in summary.left_out.items():
            print(f"warning: {name} is left out of the winner's values: {problem} ({LEFT_OUT_FIX})", file=sys.stderr)
        summaries.append(summary)
        worst = max(worst, code, RUNS_FAILED if summary.left_out or not summary.winners else 0)
    if len(summaries) > 1:
        print_summaries(summaries)
    return Result({"searches": [search_data(place, one) for one in summaries]}, code=worst)
