"""Verbs that carry results to another place: `plat export` and `plat import`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.common import (
    Arguments,
    HomeOption,
    StoreOption,
    home_option,
    load_experiments,
    split,
)
from plat.cli.exit_codes import RUNS_FAILED
from plat.cli.settings import settings, verb
from plat.cli.table import fitted, table
from plat.cli.waiting import followed
from plat.store.home import Home
from plat.units import are, counted

if TYPE_CHECKING:
    from plat.store.bundle.importer import BundleReport


@verb(reads_trainers=True)
def export_(
    arguments: Arguments = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="The bundle: a new folder.")] = None,
    with_diff: Annotated[
        bool, typer.Option("--with-diff", help="Carry the text of uncommitted code changes, not only its hash.")
    ] = False,
    home: HomeOption = None,
) -> int:
    """Write the results of experiment files as a bundle: small Parquet files, to keep in git or to send.

    `plat import` makes runs of it again. Exit code 3 when some runs of the files are not in it. Of a search file, the
    runs of its trials so far, without those that it gave up.
    """
    from plat.cli.searches import without_given_up
    from plat.errors import SpecError
    from plat.store.bundle.exporter import export_bundle

    if out is None:
        raise SpecError("a bundle needs a place", where="--out", mend="name a new folder with --out DIR")
    experiments = load_experiments(
        arguments, home=home, without_file="runs that belong to no file are not exported", with_searches=True
    )
    place = Home.find(home).checked()
    experiments = without_given_up(place, experiments)
    report = export_bundle(place, experiments, out.absolute(), overrides=split(arguments)[1], with_diff=with_diff)
    failed = f" and {report.failed} failed (without their history)" if report.failed else ""
    print(fitted(f"{counted(report.done, 'run')}{failed} exported to {out}"))
    if not report.left_out:
        return 0
    print(
        f"{counted(len(report.left_out), 'run')} of these files {are(len(report.left_out))} not in the bundle:",
        file=sys.stderr,
    )
    print(table(("run", "why"), list(report.left_out.items())[:20]), file=sys.stderr)
    if len(report.left_out) > 20:
        print(f"  and {len(report.left_out) - 20} more: `plat status` lists them", file=sys.stderr)
    return RUNS_FAILED


@verb()
def import_(
    bundles: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Bundles, as `plat export` writes them.")],
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Bring the runs of bundles into this home and its store.

    They count as done. Bundles are imported one after the other, when all of them can be read. One with a run that is
    here with other content is refused as a whole, and those after it are not imported.
    """
    from plat.store.bundle.importer import import_bundle
    from plat.store.bundle.reading import read_bundle

    place = Home.find(home)
    for bundle in bundles if len(bundles) > 1 else []:
        read_bundle(bundle.absolute())
    for bundle in bundles:
        of = f" of {bundle}" if len(bundles) > 1 else ""
        report = import_bundle(place, place.store_uri(store), bundle.absolute(), followed)
        print(f"{counted(len(report.new), 'run')}{of} imported into {place.root}, {report.present} were there already")
        if command := _report_command(report, bundle, place, store):
            print(f"report of them all: {command}")
        for line in report.stored.warnings():
            print(f"warning: {line}", file=sys.stderr)
    settings.concluded = True
    return 0


def _report_command(report: BundleReport, bundle: Path, home: Home, store: str | None) -> str:
    """The command that reports all runs of a bundle, from its own experiment files; "" where it has none."""
    from plat.search.file import is_search

    files = [bundle / "experiments" / f"{name}.yaml" for name in report.experiments]
    named = [str(file) for file in files if file.is_file() and not is_search(file)]
    option = ["--store", store] if store else []
    return shlex.join(["plat", "report", *named, *report.overrides, *option]) + home_option(home) if named else ""
