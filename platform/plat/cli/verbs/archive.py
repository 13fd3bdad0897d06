"""`plat archive`: set runs aside, and bring them back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from plat.app.chosen_runs import choose_runs
from plat.app.freshness import forget
from plat.app.home_runs import home_to_read, run_name
from plat.cli.common import RUNS_FAILED, HomeOption, StoreOption, Targets, WhereOption, verb
from plat.cli.screen.table import first_rows
from plat.cli.verbs.rm import SHOWN, ForceOption, YesOption, agreed, removable
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.run_directory.state import run_state
from plat.units import are, counted


@verb(reads_trainers=True)
def archive(
    arguments: Targets = None,
    where: WhereOption = None,
    restore: Annotated[bool, typer.Option("--restore", help="Bring runs back; without names, all of them.")] = False,
    yes: YesOption = False,
    force: ForceOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Set runs aside, or bring them back.

    Moves runs to HOME/archive, and their MLflow runs into MLflow's bin. Asks first; refuses what `plat rm` refuses.
    --restore leaves runs in the archive that were started again since, and ends with exit code 3.
    """
    from plat.store.cleaning.removal import archive_runs

    place = home_to_read(home)
    if restore:
        return _restore(place, place.store_uri(store), arguments or ())
    runs = removable(*choose_runs(place, arguments, where, "archive"), force)
    if runs and agreed(f"archive {counted(len(runs), 'run')}", runs, yes):
        archive_runs(place, place.store_uri(store), [facts.paths for facts in runs])
        forget(place)  # remembered reports may show them
        print(f"{counted(len(runs), 'run')} archived; `plat archive --restore` restores them")
    return 0


def _restore(home: Home, uri: str, names: Sequence[str]) -> int:
    from plat.store.cleaning.removal import archived_runs, restore_runs

    kept = archived_runs(home)
    endings = [name.rsplit("-", 1)[-1] for name in names]
    for name, ending in zip(names, endings, strict=True):
        if not any(run.id.startswith(ending) for run in kept):
            what = f"no run {name!r} in the archive"
            raise SpecError(what, where=str(home.archive), fix="to restore all runs, give no names")
    runs = [run for run in kept if not names or run.id.startswith(tuple(endings))]
    left = restore_runs(home, uri, runs)
    forget(home)
    print(f"{counted(len(runs) - len(left), 'run')} restored")
    if not left:
        return 0
    heading = f"{counted(len(left), 'run')} {are(len(left))} still in the archive, because a newer run has the same id:"
    print(heading, file=sys.stderr)
    rows = [(run_name(home.run(run_id)), f"the newer one is {run_state(home.run(run_id)).state}") for run_id in left]
    print(first_rows(("run", "why"), rows, SHOWN), file=sys.stderr)
    print("`plat rm RUN` removes the newer run; then the same command restores the archived one", file=sys.stderr)
    return RUNS_FAILED
