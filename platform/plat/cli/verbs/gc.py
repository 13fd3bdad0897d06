"""`plat gc`: delete what nothing in a home needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.app.home_runs import home_to_read
from plat.cli.common import HomeOption, StoreOption, verb
from plat.cli.result import Result
from plat.cli.schemas.others import GcData
from plat.cli.screen.output import tell
from plat.cli.screen.table import table
from plat.errors import StoreError
from plat.store.home import Home
from plat.units import counted, size


@verb(GcData)
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be deleted.")] = False,
    caches: Annotated[
        bool, typer.Option("--caches", help="Also base models and other shared work, which can be remade.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Delete files that a home no longer needs.

    Half-written files of killed processes; checkpoints of done runs, except the newest and the peak; artifacts of their
    attempts before the last; and logs of finished preparations. Results are kept. Names the command that removes what
    plat left in the bin of MLflow.
    """
    from plat.store.cleaning.garbage import garbage, remove_garbage

    place = home_to_read(home)
    items = garbage(place, caches=caches)
    freed = 0 if dry_run else remove_garbage(items)
    _name_twins(place, store)
    listed = [{"kind": item.kind, "path": str(item.path), "bytes": item.size} for item in items]
    sizes: dict[str, list[int]] = {}
    for item in items:
        sizes.setdefault(item.kind, []).append(item.size)
    rows = [[kind, len(of_kind), size(sum(of_kind))] for kind, of_kind in sizes.items()]
    text = table(["what", "number", "room"], rows) if rows else "there is nothing to remove"
    if rows:
        total = size(sum(item.size for item in items))
        text += f"\n{total} would be freed" if dry_run else f"\n{size(freed)} freed"
    return Result({"home": str(place.root), "items": listed, "freed": freed}, text)


def _name_twins(home: Home, store: str | None) -> None:
    """Print the command that removes what plat left in the bin of a server; StoreError only with --store."""
    from plat.store.mlflow.deletion import twins
    from plat.store.mlflow.uri import gc_command

    try:
        uri = home.store_uri(store)
        if found := twins(home, uri):
            runs = f"{counted(len(found), 'run')} that plat left in MLflow's bin"
            tell(f"{runs}; only MLflow itself removes them: {gc_command(uri, found)}")
    except StoreError as error:
        if store is not None:
            raise
        tell(f"the store was not looked at: {error.what}")
