"""`plat import`: bring the runs of bundles, or of other tools, into a home."""

from __future__ import annotations

import math
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.app.home_runs import home_option
from plat.app.importing import import_all
from plat.app.loading import load_experiments
from plat.app.messages import followed, stage
from plat.app.recorded.metric_choice import Choice
from plat.cli.common import HomeOption, StoreOption, shown, verb
from plat.cli.result import Result, made
from plat.cli.schemas.others import ImportData
from plat.errors import SpecError
from plat.store.home import Home
from plat.suggest import suggest
from plat.units import counted

if TYPE_CHECKING:
    from plat.app.recorded.selection import Selection
    from plat.store.bundle.bundle_importer import BundleReport


@verb(ImportData, lines=True)
def import_(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="[KIND] SOURCE...", help="Bundles; or table, tensorboard, mlflow or wandb and its sources."
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The experiment file to write.")] = None,
    axes: Annotated[str, typer.Option("--axes", metavar="A,B", help="Values that become axes [those that vary].")] = "",
    seed: Annotated[str, typer.Option("--seed", metavar="KEY", help="Value that is the seed; none: number runs.")] = "",
    metrics: Annotated[str, typer.Option("--metrics", metavar="A,B", help="Metrics to import [all].")] = "",
    step: Annotated[str, typer.Option("--step", metavar="KEY", help="Metric or column that counts steps.")] = "",
    value: Annotated[str, typer.Option("--value", metavar="KEY", help="Of a table: its only column of numbers.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="KEY", help="Of a table: column that names the metric.")] = "",
    path: Annotated[
        str, typer.Option("--path", metavar="PATTERN", help="Of tables: '{algorithm}/{task}.csv' below the source.")
    ] = "",
    beside: Annotated[
        str, typer.Option("--beside", metavar="FILE", help="Of tables: name of a file with values beside each.")
    ] = "",
    repeated: Annotated[
        str, typer.Option("--repeated", metavar="WHICH", help="Of runs with equal values: longest, first or last.")
    ] = "",
    join: Annotated[str, typer.Option("--join", metavar="FILE", help="Of tables: a CSV file with more values.")] = "",
    levels: Annotated[str, typer.Option("--levels", metavar="A,B", help="Of JSON: keys above its records.")] = "",
    experiment: Annotated[str, typer.Option("--experiment", metavar="NAME", help="Experiment of MLflow.")] = "",
    unfinished: Annotated[bool, typer.Option("--unfinished", help="Also runs that did not finish.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the experiment file and its runs.")] = False,
    mirror: Annotated[bool, typer.Option("--mirror", help="Copy all steps into MLflow's tables.")] = False,
    no_sweep: Annotated[bool, typer.Option("--no-sweep", help="Only write the file.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write nothing; show axes, seeds and three rows.")] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> Result:
    """Import the runs of bundles, or of tables (CSV, JSON, Parquet), TensorBoard, MLflow or W&B.

    Runs of bundles count as done. Bundles are imported one after the other, when all of them can be read. A bundle with
    a run that is here with other content is refused as a whole, and those after it are not imported.

    Runs of other tools become an experiment file and a folder of recordings beside it, and the file is swept. MLflow's
    tables get the last values of imported runs, and all steps with --mirror; reports have all steps in any case.
    """
    from plat.app.recorded.sources import READERS, import_runs

    choice = Choice(_names(axes), seed, _names(metrics), step, experiment, unfinished)
    choice = replace(
        choice,
        path=path,
        beside=beside,
        levels=_names(levels),
        value=value,
        named_by=name,
        repeated=repeated,
        join=join,
    )
    if sources[0] not in READERS:
        if out is not None or force or no_sweep or dry_run or choice != Choice():
            kinds = f"the kind comes first, one of {', '.join(READERS)}"
            if not Path(sources[0]).exists():
                what = f"{sources[0]!r} is no kind of source, and no bundle"
                raise SpecError(what, where="the command line", fix=suggest(sources[0], [*READERS], "kinds"))
            fix = f"{kinds}: plat import table {sources[0]} ..."
            raise SpecError("these options are for runs of other tools", where="the command line", fix=fix)
        return _import_bundles(list(map(Path, sources)), home, store, mirror)
    if dry_run:
        return _looked_at(sources[0], import_runs(sources[0], sources[1:], Path(), choice, dry=True))
    if out is None:
        fix = f"plat import {shlex.join(sources)} --out runs.yaml"
        raise SpecError("no experiment file is named", where="--out", fix=fix)
    result = _import_recorded(sources[0], sources[1:], out, choice, force, None if no_sweep else (home, store))
    if mirror and not no_sweep:
        place = Home.find(home)
        import_all(place, place.store_uri(store), load_experiments([str(out)], home=home), mirror=True)
    return result


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _import_recorded(
    kind: str,
    sources: list[str],
    out: Path,
    choice: Choice,
    force: bool,
    sweep_in: tuple[str | None, str | None] | None,
) -> Result:
    """Import runs of other tools, and sweep the experiment file. `sweep_in`: home and store; None: do not sweep."""
    from plat.app.recorded.sources import import_runs
    from plat.app.sweeping import chosen_place
    from plat.cli.verbs.sweep import How, swept

    selection = import_runs(kind, sources, out, choice, force=force)
    axes = ", ".join([*selection.axes, "seed"])
    print(f"{shown(out)}: {counted(len(selection.runs), 'run')} of {kind}, axes: {axes}")
    for note in selection.notes:
        print(f"note: {note}")
    data = {"file": str(out), "runs": len(selection.runs), "axes": [*selection.axes, "seed"], "notes": selection.notes}
    data |= {"present": 0, "report": shlex.join(["plat", "report", str(out)]), "sweep": None}
    if sweep_in is None:
        stage.concluded = True
        return Result(data, f"next: plat sweep {shlex.quote(shown(out))}")
    done = swept([str(out)], chosen_place([str(out)], "local", None), How(), *sweep_in)
    return replace(done, data=lambda: {**data, "sweep": made(done.data)})


def _looked_at(kind: str, selection: Selection) -> Result:
    """Return what an import would write: axes, seeds, missing cells, and the first steps."""
    from plat.app.recorded.file_text import distinct, seeds_in_words

    axes = {axis: distinct([each.values[axis] for each in selection.runs]) for axis in selection.axes}
    seeds = sorted({each.seed for each in selection.runs})
    missing = math.prod([len(seeds), *map(len, axes.values())]) - len(selection.runs)
    names = list(dict.fromkeys(name for each in selection.runs for row in each.run.history.values() for name in row))
    print(
        f"{counted(len(selection.runs), 'run')} of {kind}, metrics: {', '.join(names[:20])}"
        + ", ..." * (len(names) > 20)
    )
    for axis, values in axes.items():
        shown_values = ", ".join(map(str, values[:20])) + ", ..." * (len(values) > 20)
        print(f"  {axis}: {shown_values}" + f" ({len(values)} values)" * (len(values) > 4))
    print(f"  seed: {seeds_in_words(selection)}")
    print(f"  missing: {missing} of {missing + len(selection.runs)} combinations of these values")
    first = selection.runs[0]
    print(f"the first steps of {first.run.name or first.run.place}:")
    for step in sorted(first.run.history)[:3]:
        row = first.run.history[step]
        print(f"  step {step}: " + ", ".join(f"{name} {value:.6g}" for name, value in list(row.items())[:8]))
    for note in selection.notes:
        print(f"note: {note}")
    data = {"file": None, "runs": len(selection.runs), "axes": [*selection.axes, "seed"], "notes": selection.notes}
    stage.concluded = True
    return Result({**data, "present": 0, "report": "", "sweep": None}, "nothing was written (--dry-run)")


def _import_bundles(bundles: list[Path], home: str | None, store: str | None, mirror: bool) -> Result:
    from plat.store.bundle.bundle_importer import import_bundle
    from plat.store.bundle.reading import read_bundle

    place = Home.find(home)
    for bundle in bundles if len(bundles) > 1 else []:
        read_bundle(bundle.absolute())
    data: dict[str, Any] = {"file": None, "runs": 0, "axes": [], "notes": [], "present": 0, "report": "", "sweep": None}
    for bundle in bundles:
        of = f" of {bundle}" if len(bundles) > 1 else ""
        report = import_bundle(place, place.store_uri(store), bundle.absolute(), followed, curves=mirror)
        print(f"{counted(len(report.new), 'run')}{of} imported into {place.root}, {report.present} were there already")
        data["runs"] += len(report.new)
        data["present"] += report.present
        if command := _report_command(report, bundle, place, store):
            data["report"] = command
            print(f"report of them all: {command}")
        for line in report.stored.warnings():
            print(f"warning: {line}", file=sys.stderr)
            data["notes"].append(line)
    stage.concluded = True
    return Result(data)


def _report_command(report: BundleReport, bundle: Path, home: Home, store: str | None) -> str:
    """Return the command that reports all runs of a bundle from its own experiment files; "" if it has none."""
    from plat.spec.reading.experiment_file import is_search

    files = [bundle / "experiments" / f"{name}.yaml" for name in report.experiments]
    named = [str(file) for file in files if file.is_file() and not is_search(file)]
    option = ["--store", store] if store else []
    return shlex.join(["plat", "report", *named, *report.overrides, *option]) + home_option(home) if named else ""
