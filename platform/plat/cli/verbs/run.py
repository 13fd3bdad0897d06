"""`plat run`: do one run, given by overrides alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from plat.app.loading import split
from plat.app.sweeping import Sweep, check_before, run_missing
from plat.cli.common import HomeOption, JsonOption, StealOption, StoreOption, print_json, shown, verb
from plat.cli.completion import keys
from plat.cli.screen.failure_words import conclude
from plat.errors import SpecError
from plat.store.home import Home
from plat.units import percent


@verb(reads_trainers=True)
def run(
    context: typer.Context,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="The run's options.", autocompletion=keys)
    ] = None,
    steal: StealOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Execute one run, given by overrides alone.

    The same command again resumes an interrupted run. For example: plat run task=digits lr=0.01 seed=1
    """
    from plat.dispatch.progress import choose
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
    progress = choose(sys.stderr) if as_json else None  # only the JSON goes to stdout
    report = run_missing(asked, [made], progress=progress)
    result = read_result(place.run(made.id))
    if as_json:
        print_json({"id": made.id, "name": made.name, "result": result})
    elif result is not None:
        success = percent(result.get("success"))
        measured = f"success {success}" if success else "no success measured"
        print(f"{made.name}: {result['outcome']} at step {result.get('step')}, {measured}")
        print(f"  in {shown(place.run(made.id).root)}; `plat why {made.id[:8]}` explains it")
    return conclude(report, "run")
