"""`plat sync`: copy what runs recorded into MLflow."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.app.importing import convert_store, import_all
from plat.app.loading import load_experiments
from plat.cli.common import Arguments, HomeOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import SyncData
from plat.cli.screen.table import fitted
from plat.errors import HomeError
from plat.store.home import Home
from plat.store.mlflow.uri import shown_uri
from plat.units import counted


@verb(SyncData, reads_trainers=True)
def sync(
    arguments: Arguments = None,
    convert: Annotated[bool, typer.Option("--convert", help="Also convert what plat 0.4 has stored.")] = False,
    mirror: Annotated[bool, typer.Option("--mirror", help="Also copy the steps of runs of other tools.")] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Copy what runs recorded into MLflow.

    Takes the runs of the named files, or all of this home. `plat sweep` does the same for its runs. Of runs of other
    tools, MLflow's tables get the last values, and all steps with --mirror.
    """
    from plat.store.mlflow.connect import check_store

    place = Home.find(home)
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True)
    if not place.exists():
        fix = "name the one that `plat sweep` made, with --home DIR (or PLAT_HOME)"
        raise HomeError("there is no home directory here, so there are no runs to copy", where=str(place.root), fix=fix)
    place.create()
    uri = place.store_uri(store)
    done = import_all(place, uri, experiments, mirror=mirror)
    if convert:
        convert_store(place, uri)
    if not (done.imported or done.unchanged):
        check_store(place, uri)  # without runs to import, the store was not checked yet
    counts = f"{counted(len(done.imported), 'run')} brought up to date, {done.unchanged} up to date already"
    data = {"store": shown_uri(uri), "imported": done.imported, "unchanged": done.unchanged}
    damaged = [*done.damaged, *done.unreadable]
    return Result({**data, "damaged": damaged}, fitted(f"{counts}: {shown_uri(uri)}"), done.exit_code)
