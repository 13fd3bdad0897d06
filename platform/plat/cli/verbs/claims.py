"""`plat claims`: the verdict on each claim."""

from __future__ import annotations

from plat.app.entries import with_code_of_runs
from plat.app.importing import catch_up
from plat.app.loading import split
from plat.app.messages import tell
from plat.app.report_making import Tolerant, judged
from plat.cli.common import (
    RUNS_FAILED,
    Arguments,
    CodeOfRunsOption,
    HomeOption,
    StoreOption,
    verb,
)
from plat.cli.result import Result
from plat.cli.schemas.results import ClaimsData
from plat.cli.screen.verdict_list import FOLDER, as_list, files_with_claims, in_full, is_folder
from plat.cli.screen.verdict_list import as_json as verdicts_as_json
from plat.planning.changed_code import changed_code, made_before
from plat.store.home import Home

WITHOUT_FOLDER = "without one, `plat claims` judges every file below `experiments/`, and there is no such folder here"


@verb(ClaimsData, reads_trainers=True)
def claims(
    arguments: Arguments = None,
    home: HomeOption = None,
    store: StoreOption = None,
    code_of_runs: CodeOfRunsOption = False,
) -> Result:
    """Print the verdict on each claim.

    Without a file, judges every file below `experiments/` (or below a named folder), under the sentences of a paper
    that they test. The error is held over all of their claims.
    """
    from plat_analysis.claims.reference import paper_claims
    from plat_analysis.report.verdicts import verdict_lines

    files, overrides = split(arguments)
    folders = files or ([FOLDER] if FOLDER.is_dir() else [])
    named = [path for file in folders for path in (files_with_claims(file) if is_folder(file) else [file])]
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    tolerant = Tolerant(several=len(named) > 1)
    claim_nothing = files and not named
    experiments = [] if claim_nothing else tolerant.load(dict.fromkeys(named), overrides, home, WITHOUT_FOLDER)
    experiments = with_code_of_runs(experiments, place) if code_of_runs else experiments
    exit_code = catch_up(place, uri, experiments)
    runs = [run for experiment in experiments for run in experiment.runs]
    earlier = made_before(runs, place)
    for line in changed_code(runs, place, earlier):
        tell(f"note: {line}")
    if earlier:
        tell("note: --code-of-runs judges the runs of the earlier code")
        exit_code = exit_code or RUNS_FAILED
    claimed = paper_claims(experiments)
    checked = []
    for experiment in experiments:
        if (done := tolerant.call(judged, place, uri, experiment)) is not None:
            checked.append(done[0])
            exit_code = exit_code if done[1] else RUNS_FAILED
    lines = verdict_lines(checked)
    data = {"claims": verdicts_as_json(lines, claimed)}

    def text() -> str:
        if not lines:
            return "" if tolerant.failed else "these files claim nothing"
        return as_list(lines, [] if files else claimed) if tolerant.several else in_full(checked[0])

    return Result(data, text, RUNS_FAILED if tolerant.failed else exit_code)
