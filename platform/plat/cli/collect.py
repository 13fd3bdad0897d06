"""`plat gc`: frees the room that nothing in a home needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.cli.common import HomeOption, JsonOption, StoreOption, print_json
from plat.cli.output import tell
from plat.cli.settings import verb
from plat.cli.table import table
from plat.errors import StoreError
from plat.store.home import Home
from plat.units import counted, size


@verb()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    caches: Annotated[
        bool, typer.Option("--caches", help="Base models and other shared work, too: made again when needed.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Free room: what a home no longer needs.

    Half-written files of killed processes, checkpoints of done runs (the newest and the peak stay) and artifacts of
    their attempts before the last, logs of preparations that are over, and what plat itself left in MLflow's bin.
    Results are never touched.
    """
    from plat.store.garbage import garbage, remove_garbage

    place = Home.find(home).checked()
    items = garbage(place, caches=caches)
    freed = 0 if dry_run else remove_garbage(items)
    _collect_twins(place, store, dry_run)
    if as_json:
        listed = [{"kind": item.kind, "path": str(item.path), "bytes": item.size} for item in items]
        print_json({"home": str(place.root), "items": listed, "freed": freed})
        return 0
    kinds = list(dict.fromkeys(item.kind for item in items))
    rows = []
    for kind in kinds:
        sizes = [item.size for item in items if item.kind == kind]
        rows.append([kind, len(sizes), size(sum(sizes))])
    print(table(["what", "number", "room"], rows) if rows else "there is nothing to remove")
    if rows:
        total = size(sum(item.size for item in items))
        print(f"{total} would be freed" if dry_run else f"{size(freed)} freed")
    return 0


def _collect_twins(home: Home, store: str | None, dry_run: bool) -> None:
    """Remove what plat itself left in MLflow's bin; of a server, say how. A store that does not answer is named."""
    from plat.store.mlflow.removal import remove_twins, twins
    from plat.store.mlflow.uri import gc_command, sqlite_path

    try:
        uri = home.store_uri(store)
        found = twins(home, uri)
        if not found:
            return
        runs = f"{counted(len(found), 'run')} that plat left in MLflow's bin"
        if sqlite_path(uri) is None:
            tell(f"{runs}; only MLflow itself removes them: {gc_command(uri, found)}")
        elif dry_run:
            tell(f"{runs} would be removed from the store")
        else:
            remove_twins(home, uri, found)
            tell(f"{runs} removed from the store")
    except StoreError as error:
        if store is not None:
            raise
        tell(f"the store was not looked at: {error.what}")
