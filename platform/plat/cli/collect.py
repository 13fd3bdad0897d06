"""`plat gc`: frees the room that nothing in a home needs any more."""

from __future__ import annotations

from typing import Annotated

import typer

from plat.cli.common import HomeOption, JsonOption, print_json
from plat.cli.settings import verb
from plat.cli.table import table
from plat.store.home import Home
from plat.units import size


@verb()
def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    caches: Annotated[
        bool, typer.Option("--caches", help="Base models and other shared work, too: made again when needed.")
    ] = False,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Free room: what a home no longer needs.

    Half-written files of killed processes, checkpoints of done runs (the newest and the peak stay) and artifacts of
    their attempts before the last, logs of preparations that are over. Results are never touched.
    """
    from plat.store.garbage import garbage, remove_garbage

    place = Home.find(home).checked()
    items = garbage(place, caches=caches)
    freed = 0 if dry_run else remove_garbage(items)
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
