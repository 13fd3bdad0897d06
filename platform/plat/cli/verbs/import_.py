"""`plat import`: bring the runs of bundles into a home."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plat.app.home_runs import home_option
from plat.app.messages import followed, stage
from plat.cli.common import HomeOption, StoreOption, verb
from plat.store.home import Home
from plat.units import counted

if TYPE_CHECKING:
    from plat.store.bundle.bundle_importer import BundleReport


@verb()
def import_(
    bundles: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Bundles, as `plat export` writes them.")],
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Import the runs of bundles into this home and its store.

    They count as done. Bundles are imported one after the other, when all of them can be read. A bundle with a run that
    is here with other content is refused as a whole, and those after it are not imported.
    """
    from plat.store.bundle.bundle_importer import import_bundle
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
    stage.concluded = True
    return 0


def _report_command(report: BundleReport, bundle: Path, home: Home, store: str | None) -> str:
    """Return the command that reports all runs of a bundle from its own experiment files; "" if it has none."""
    from plat.spec.reading.experiment_file import is_search

    files = [bundle / "experiments" / f"{name}.yaml" for name in report.experiments]
    named = [str(file) for file in files if file.is_file() and not is_search(file)]
    option = ["--store", store] if store else []
    return shlex.join(["plat", "report", *named, *report.overrides, *option]) + home_option(home) if named else ""
