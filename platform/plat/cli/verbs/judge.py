"""`plat judge`: is a new version of a command better than another one?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from plat.app.home_runs import home_option
from plat.app.judging.judgement_file import MOST, Design
from plat.app.judging.judging import RunsFailed
from plat.app.judging.judging import judge as judged
from plat.app.judging.versions import find_versions, with_seed
from plat.app.sweeping import Sweep, chosen_place
from plat.cli.common import (
    RUNS_FAILED,
    HomeOption,
    JobsOption,
    OnOption,
    QuietOption,
    StoreOption,
    shown,
    verb,
)
from plat.cli.result import Result, settings
from plat.cli.schemas.results import JudgeData
from plat.errors import RunError
from plat.store.home import Home
from plat.units import seconds_of

NAMED = 5  # files in a line


@verb(JudgeData)
def judge(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="The new version: 'python train.py --lr 0.1'.")],
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="The metric; its last value counts.")],
    against: Annotated[
        str,
        typer.Option("--against", metavar="VERSION", help="A commit, a folder, a command, or two commits: OLD..NEW."),
    ],
    lower: Annotated[bool, typer.Option("--lower", help="Smaller values are better.")] = False,
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="X", help="A smaller improvement is none.")
    ] = None,
    most: Annotated[int, typer.Option("--most", metavar="N", help="The most pairs of runs.")] = MOST,
    budget: Annotated[
        str | None, typer.Option("--budget", metavar="TIME", help="No run starts after this time, such as 30m.")
    ] = None,
    study: Annotated[
        str, typer.Option("--study", metavar="NAME", help="Judgements of one study share an error: 5 % of those kept.")
    ] = "",
    reads: Annotated[
        str, typer.Option("--reads", metavar="SETTING", help="What reads the metrics, as `script.metrics`.")
    ] = "text",
    gpus: Annotated[int, typer.Option("--gpus", min=0, metavar="N", help="GPUs of a run.")] = 0,
    own_folder: Annotated[
        bool, typer.Option("--own-folder", help="For a script that writes into its folder: each run gets its own.")
    ] = False,
    link: Annotated[
        bool, typer.Option("--link/--no-link", help="Link what git ignores into the files of a commit.")
    ] = True,
    jobs: JobsOption = None,
    on: OnOption = "local",
    home: HomeOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
) -> Result:
    """Judge two versions of a command.

    Executes pairs of runs with equal seeds, as many as the verdict needs: both versions, from 8 pairs on. Exit codes: 0
    better, 10 worse, 11 no difference of that size, 12 undecided, 13 the new version fails, 3 a run failed otherwise.
    """
    from plat.cli.screen.json_lines import progress_of_verb

    place = Home.find(home).checked()
    design = Design(metric, lower, margin, most, reads, gpus, own_folder).checked()
    limit = seconds_of(budget, "--budget") if budget is not None else None
    new, old = (with_seed(one) for one in find_versions(command, against, place, link=link))
    asked = Sweep(place, place.store_uri(store), chosen_place([], on, True), jobs)
    try:
        found = judged(
            asked,
            design,
            old,
            new,
            limit,
            study,
            progress=lambda: progress_of_verb(quiet=quiet or settings.json, each=settings.verbose),
        )
    except RunsFailed as failure:
        fix = f"`plat why {failure.run_id[:8]}{home_option(place)}` shows its output" if failure.run_id else None
        error = RunError(f"nothing can be judged: {failure}", fix=fix)
        error.exit_code = RUNS_FAILED
        raise error from failure
    return Result(found.to_json(), "\n".join([found.line, *_outside(found.outside)]), found.code)


def _outside(files: Sequence[str]) -> list[str]:
    """Return the line on files that both versions share; [] without any."""
    if not files:
        return []
    more = f" and {len(files) - NAMED} more (--json has all)" if len(files) > NAMED else ""
    names = ", ".join(shown(Path(file)) for file in files[:NAMED])
    return [f"read outside of the versions, so shared by both: {names}{more}"]
