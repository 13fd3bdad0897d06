"""`plat claims`: the verdict on each claim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.app.entries import with_code_of_runs
from plat.app.importing import catch_up
from plat.app.loading import split
from plat.app.messages import noted
from plat.app.report_making import Tolerant, judged, tell_changed_code
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
from plat.cli.screen.badge import drawn
from plat.cli.screen.table import fitted
from plat.cli.screen.verdict_list import FOLDER, as_list, files_with_claims, in_full, is_folder
from plat.errors import SpecError
from plat.store.disk.durable import write
from plat.store.home import Home
from plat.units import counted

if TYPE_CHECKING:
    from plat_analysis.claims.engine import Verdict

DIFFERS = 10
WITHOUT_FOLDER = "without one, `plat claims` judges every file below `experiments/`, and there is no such folder here"


@verb(ClaimsData, reads_trainers=True)
def claims(
    arguments: Arguments = None,
    home: HomeOption = None,
    store: StoreOption = None,
    code_of_runs: CodeOfRunsOption = False,
    check: Annotated[bool, typer.Option("--check", help="Compare with what the claims `expect`.")] = False,
    badge: Annotated[
        Path | None, typer.Option("--badge", metavar="FILE.svg", help="Also draw the verdicts as a badge.")
    ] = None,
) -> Result:
    """Print the verdict on each claim.

    Without a file, judges every file below `experiments/` (or below a named folder), under the sentences of a paper
    that they test. The error is held over all of their claims. With --check, the exit code is 10 where a verdict is not
    what its claim expects (`expect: shown`).
    """
    if badge is not None and (badge.suffix != ".svg" or not badge.parent.is_dir()):
        raise SpecError(
            "the badge cannot be written there", where="--badge", fix="name FILE.svg in a folder that exists"
        )
    with noted() as notes:
        return _judged(arguments, home, store, code_of_runs, check, badge, notes)


def _judged(
    arguments: list[str] | None,
    home: str | None,
    store: str | None,
    code_of_runs: bool,
    check: bool,
    badge: Path | None,
    notes: list[str],
) -> Result:
    from plat_analysis.claims.reference import paper_claims
    from plat_analysis.report.verdicts import as_json, verdict_lines

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
    if tell_changed_code(place, experiments):
        exit_code = exit_code or RUNS_FAILED
    claimed = paper_claims(experiments)
    checked = []
    for experiment in experiments:
        if (done := tolerant.call(judged, place, uri, experiment)) is not None:
            checked.append(done[0])
            exit_code = exit_code if done[1] else RUNS_FAILED
    lines = verdict_lines(checked)
    failed = [error.to_json() for error in tolerant.failed]
    data = {"claims": as_json(lines, claimed), "notes": notes, "failed": failed}

    if badge is not None:
        write(badge, drawn([line.verdict for line in lines]).encode())
    exit_code = RUNS_FAILED if tolerant.failed else exit_code
    if check:
        return _compared([line.verdict for line in lines], data, exit_code)

    def text() -> str:
        if not lines:
            return "" if tolerant.failed else "these files claim nothing"
        return as_list(lines, [] if files else claimed) if tolerant.several else in_full(checked[0])

    return Result(data, text, exit_code)


def _compared(verdicts: list[Verdict], data: dict[str, Any], exit_code: int) -> Result:
    """Return the verdicts that are not what their claims expect, with exit code 10 if there are any.

    Raises SpecError if no claim expects anything.
    """
    expecting = [verdict for verdict in verdicts if verdict.expected]
    if not expecting:
        fix = "add for example `expect: shown` to a claim; several verdicts as a list: `expect: [shown, open]`"
        raise SpecError("no claim says which verdict it expects", where="--check", fix=fix)
    others = [verdict for verdict in expecting if not verdict.as_expected]
    lines = []
    for one in others:
        expected = " or ".join(one.expected).replace("_", " ")
        lines.append(f"{one.id}: expected {expected}, found {one.word}: {one.reason.removeprefix('open: ')}")
    rest = len(verdicts) - len(expecting)
    without = f"; {counted(rest, 'other')} without `expect`" if rest else ""
    lines.append(f"as expected: {len(expecting) - len(others)} of {counted(len(expecting), 'claim')}{without}")
    return Result(data, fitted("\n".join(lines)), DIFFERS if others else exit_code)
