"""`plat mcp`: offer verbs to agents as tools of the Model Context Protocol, on stdin and stdout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from plat.cli.common import HomeOption, StoreOption, verb
from plat.errors import SpecError
from plat.extras import require_extra
from plat.store.home import Home


@verb()
def mcp(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The folder whose files may be named [here].")
    ] = Path(),
    allow_runs: Annotated[
        bool, typer.Option("--allow-runs", help="Also offer what starts and stops runs and executes commands.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Offer verbs to agents as tools (MCP).

    An agent's client starts this command and talks to it on stdin and stdout. The tools return the JSON of the verbs.
    Without --allow-runs they plan, wait, show runs and judge claims, but start and stop nothing. Without --home,
    the home is that of commands given in DIR.
    """
    from plat.cli.mcp_tools import Served, make_server

    require_extra("mcp", "plat mcp", "the command line")
    if not folder.is_dir():
        raise SpecError("there is no such folder", where=str(folder), fix="name a folder with experiment files")
    named = os.path.abspath(home) if home else None
    os.chdir(folder)
    served = Served(Path.cwd(), Home.find(named).checked().root.absolute(), store)
    make_server(served, allow_runs=allow_runs).run("stdio")
    return 0
