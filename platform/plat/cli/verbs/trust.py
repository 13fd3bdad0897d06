"""`plat trust`: the folders whose files may name code that no package publishes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer

from plat.app.trusting import forget
from plat.app.trusting import trust as add
from plat.cli.common import JsonOption, print_json, verb
from plat.errors import SpecError
from plat.trainer.permission import list_of_folders, trusted_folders


@verb()
def trust(
    folder: Annotated[str | None, typer.Argument(metavar="[DIR]", help="A folder; without one, list them.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Trust the folder no longer.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Let the files of a folder name code.

    Experiment files in it and below it may then name a trainer as MODULE:ATTRIBUTE, as with --allow-import. A command
    runs such code only if all its files lie in trusted folders. Trust a folder only if you trust its code.
    """
    if remove and folder is None:
        raise SpecError("no folder named", where="the command line", fix="plat trust --remove DIR; `plat trust` lists")
    said = ""
    if folder is not None and remove:
        said = f"{forget(Path(folder))} is no longer trusted"
    elif folder is not None:
        place = add(Path(folder))
        said = f"{place} is trusted: experiment files in it and below it may name code as MODULE:ATTRIBUTE\n"
        said += f"to forget it: plat trust --remove {shlex.quote(str(place))}"
    folders = trusted_folders()
    if as_json:
        print_json({"file": list_of_folders(), "folders": folders})
    elif said:
        print(said)
    else:
        for known in folders:
            print(known if os.path.isdir(known) else f"{known} (it does not exist)")
        if not folders:
            print("no folder is trusted; `plat trust DIR` lets the files of DIR name code")
    return 0
