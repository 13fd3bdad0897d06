"""Verbs that take runs away: `plat rm` for good, `plat archive` so that they can be brought back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from plat.cli.common import HomeOption, StoreOption, run_name
from plat.cli.entries import STOPPABLE
from plat.cli.exit_codes import RUNS_FAILED
from plat.cli.freshness import forget
from plat.cli.run_facts import RunFacts
from plat.cli.selection import WhereOption
from plat.cli.settings import verb
from plat.cli.table import table
from plat.cli.targets import Chosen, Targets, choose_runs
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.state import run_state
from plat.units import are, counted

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Also runs that other experiment files asked for.")]
SHOWN = 10  # runs named in the question, and of those that stay in the archive


@verb(reads_trainers=True)
def rm(
    arguments: Targets = None,
    where: WhereOption = None,
    yes: YesOption = False,
    force: ForceOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Remove runs for good, and their MLflow runs.

    Asks first. Runs that go on are refused, and so are those that another experiment file asked for, unless --force.
    For example: plat rm table4.yaml --where state=failed
    """
    from plat.store.removal import remove_runs

    place = Home.find(home).checked()
    runs = _removable(choose_runs(place, arguments, where, "rm"), force)
    if runs and _agreed(f"remove {counted(len(runs), 'run')} for good, and what MLflow has of them", runs, yes):
        _take_away(remove_runs, place, store, runs)
        print(f"{counted(len(runs), 'run')} removed")
    return 0


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
    """Set runs aside, so that they can be brought back.

    They go to HOME/archive, and their MLflow runs into MLflow's bin. Asks first; refuses what `plat rm` refuses.
    --restore leaves runs in the archive that were started again meanwhile, and ends with exit code 3.
    """
    from plat.store.removal import archive_runs

    place = Home.find(home).checked()
    if restore:
        return _restore(place, place.store_uri(store), arguments or ())
    runs = _removable(choose_runs(place, arguments, where, "archive"), force)
    if runs and _agreed(f"archive {counted(len(runs), 'run')}", runs, yes):
        _take_away(archive_runs, place, store, runs)
        print(f"{counted(len(runs), 'run')} archived; `plat archive --restore` brings them back")
    return 0


def _take_away(
    how: Callable[[Home, str, Sequence[RunPaths]], None], home: Home, store: str | None, runs: Sequence[RunFacts]
) -> None:
    """Remove or archive runs; the reports that were remembered may show them, and are forgotten."""
    how(home, home.store_uri(store), [facts.paths for facts in runs])
    forget(home)


def _restore(home: Home, uri: str, names: Sequence[str]) -> int:
    from plat.store.removal import archived_runs, restore_runs

    kept = archived_runs(home)
    endings = [name.rsplit("-", 1)[-1] for name in names]
    runs = [run for run in kept if not names or any(run.id.startswith(ending) for ending in endings)]
    unknown = [
        name for name, ending in zip(names, endings, strict=True) if not any(r.id.startswith(ending) for r in kept)
    ]
    if unknown:
        raise SpecError(
            f"no run {unknown[0]!r} in the archive", where=str(home.archive), mend="leave the names out for all"
        )
    left = restore_runs(home, uri, runs)
    forget(home)
    print(f"{counted(len(runs) - len(left), 'run')} restored")
    if not left:
        return 0
    heading = f"{counted(len(left), 'run')} {are(len(left))} still in the archive, having been started again meanwhile:"
    print(heading, file=sys.stderr)
    rows = [(run_name(home.run(run_id)), f"the newer one is {run_state(home.run(run_id)).state}") for run_id in left]
    print(table(("run", "why"), rows[:SHOWN]), file=sys.stderr)
    if len(rows) > SHOWN:
        print(f"  and {len(rows) - SHOWN} more", file=sys.stderr)
    print("`plat rm RUN` removes a newer one; then the same command brings back the older", file=sys.stderr)
    return RUNS_FAILED


def _removable(chosen: Chosen, force: bool) -> list[RunFacts]:
    """The chosen runs that have a directory; SpecError for one that goes on, or that another file asked for."""
    runs = [facts for facts in chosen.runs if facts.paths.root.is_dir()]
    if not runs:
        print("there is no such run in this home")
    for facts in runs:
        if facts.entry.state.state in STOPPABLE or lease.state(facts.paths) in ("live", "unknown"):
            raise SpecError(
                f"{facts.entry.name} is going on",
                where=str(facts.paths.lease),
                mend=f"`plat cancel {facts.entry.id[:8]}` stops it; then give the same command again",
            )
    named = {experiment.name for experiment in chosen.experiments}
    for facts in runs:
        others = [file for file in facts.files if file not in named]
        if len(others) > (0 if named else 1) and not force:
            raise SpecError(
                f"{facts.entry.name} is wanted by {', '.join(others)}, too",
                where=str(facts.paths.root),
                mend="name those files, too, leave the run out with --where, or give --force",
            )
    return runs


def _agreed(what: str, runs: Sequence[RunFacts], yes: bool) -> bool:
    """Whether the user wants it; asked on a terminal only. SpecError where nobody can be asked."""
    if yes:
        return True
    print(table(("run", "state"), [(facts.entry.name, facts.entry.state.state) for facts in runs[:SHOWN]]))
    if len(runs) > SHOWN:
        print(f"  and {len(runs) - SHOWN} more")
    if not sys.stdin.isatty():
        raise SpecError(f"this would {what}", where="the command line", mend="give --yes where nobody can be asked")
    if input(f"{what}? [y/N] ").strip().lower() in ("y", "yes"):
        return True
    print("nothing was changed")
    return False
