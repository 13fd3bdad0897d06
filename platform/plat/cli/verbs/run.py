"""`plat run`: do one run, given by overrides alone."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.app.loading import split
from plat.app.sweeping import Sweep, check_before, run_missing
from plat.cli.common import HomeOption, StealOption, StoreOption, shown, verb
from plat.cli.completion import keys
from plat.cli.result import Result
from plat.cli.schemas.runs import RunData
from plat.cli.screen.failure_words import conclude
from plat.errors import SpecError
from plat.store.home import Home
from plat.units import percent


@verb(RunData, reads_trainers=True)
def run(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="The run's options.", autocompletion=keys)
    ] = None,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result | int:
    """Execute one run, given by overrides alone.

    The same command again resumes an interrupted run. For example: plat run task=digits lr=0.01 seed=1
    """
    from plat.cli.screen.json_lines import progress_of_verb
    from plat.spec.expansion.experiment import build_run
    from plat.store.run_directory.run_files import read_result

    if not arguments:  # the options of a run have no sensible guess
        print(context.get_help())
        return SpecError.exit_code
    files, overrides = split(arguments)
    if files and files[0].exists():
        raise SpecError(f"`plat run` takes no file, and {files[0]} is one", fix=f"plat sweep {files[0]}")
    if files:
        key, _, value = str(files[0]).partition(":")
        what = f"`plat run` takes options as KEY=VALUE, and {str(files[0])!r} has no ="
        fix = f"for example {key}={value or 'VALUE'}; a file is given to `plat sweep`"
        raise SpecError(what, where="the command line", fix=fix)
    made = build_run(overrides)
    place = Home.find(home)
    asked = Sweep(place, place.store_uri(store), jobs=1, steal=steal)
    check_before(asked, [made], overrides)
    report = run_missing(asked, [made], progress=progress_of_verb())
    folder, text = place.run(made.id).root, ""
    result = read_result(place.run(made.id))
    if result is not None:
        success = percent(result.get("success"))
        measured = f"success {success}" if success else "no success measured"
        text = f"{made.name}: {result['outcome']} at step {result.get('step')}, {measured}\n"
        text += f"  in {shown(folder)}; `plat why {made.id[:8]}` explains it"
    data = {"id": made.id, "name": made.name, "folder": str(folder), "result": result}
    return Result(data, text, conclude(report, "run"))
