"""Import runs from any kind of source: write their recordings and their experiment file, all of them or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from plat.app.checking import check_report
from plat.app.recorded.file_text import axis_key, experiment_text
from plat.app.recorded.metric_choice import REPEATED, Choice
from plat.app.recorded.proposal import commented, proposals
from plat.app.recorded.selection import Recorded, Selection, select
from plat.errors import SpecError, os_errors_as
from plat.store.disk.durable import publish_folder, scratch_name, write_file
from plat.trainer.recorded.spec import SUFFIX, recording_path, recording_text

# kind -> the function that reads it: (sources, choice) -> Read. Its module is imported only when it is used.
READERS = {
    "table": ("plat.app.recorded.table_source", "read_tables"),
    "log": ("plat.app.recorded.log_source", "read_logs"),
    "tensorboard": ("plat.app.recorded.tensorboard_source", "read_tensorboard"),
    "mlflow": ("plat.app.recorded.mlflow_source", "read_mlflow"),
    "wandb": ("plat.app.recorded.wandb_source", "read_wandb"),
    "trackio": ("plat.app.recorded.trackio_source", "read_trackio"),
    "neptune": ("plat.app.recorded.neptune_source", "read_neptune"),
}


def import_runs(
    kind: str, sources: Sequence[str], out: Path, choice: Choice, *, force: bool = False, dry: bool = False
) -> Selection:
    """Read runs of other tools, and write an experiment file of them and its folder; return what was written.

    kind   a key of READERS
    force  replace an existing file and its folder
    dry    write nothing: return what would be written

    Raises SpecError, with nothing written, if the sources cannot be read or make no experiment.
    """
    if not dry:
        check_free(out, force)
        folder = _folder(out).resolve()
        if inside := [source for source in sources if Path(source).resolve().is_relative_to(folder)]:
            what = f"the source {inside[0]} lies in {folder.name}, which the import replaces"
            raise SpecError(what, where=str(out), fix="name another file: --out FILE")
    if not sources:
        raise SpecError(f"no source is named: plat import {kind} SOURCE", where="the command line", fix="name one")
    module, name = READERS[kind]
    reader: Any = getattr(import_module(module), name)
    check_options(kind, choice)
    try:
        runs, notes = reader(sources, choice)
        if not runs:
            raise SpecError("there is no run in it", where=sources[0], fix="name another source")
    except RecursionError:
        raise SpecError("a config is nested too deeply", where=sources[0], fix="leave its run out") from None
    # the step of a table is a column, and its metrics may have been named by `value`
    selection = select(runs, replace(choice, step="") if kind in OF_FILES else choice)
    selection.notes[:0] = notes
    if not dry:
        write(out, kind, selection)
    return selection


OF_FILES = ("table", "log")


def check_options(kind: str, choice: Choice) -> None:
    """Raise SpecError for options of tables with another kind, and for a name of metrics without their value."""
    of_tables = {"--levels": choice.levels, "--value": choice.value, "--name": choice.named_by}
    of_tables |= {"--repeated": choice.repeated, "--join": choice.join}
    of_files = {"--path": choice.path, "--beside": choice.beside}
    allowed = [*of_tables, *of_files] if kind == "table" else [*of_files] if kind in OF_FILES else []
    if choice.experiment and kind != "mlflow":
        raise SpecError("--experiment is for MLflow", where="the command line", fix="leave it out")
    if choice.value.endswith("=") or choice.value.startswith("="):
        raise SpecError(f"{choice.value!r} names no column", where="--value", fix="write --value NAME=COLUMN,COLUMN")
    given = [option for option, value in {**of_tables, **of_files}.items() if value and option not in allowed]
    if given:
        fix = f"plat import table SOURCE {given[0]} ..."
        of = "tables and logs" if given[0] in of_files else "tables"
        raise SpecError(f"{given[0]} is for {of}", where="the command line", fix=fix)
    if choice.repeated not in ("", *REPEATED):
        raise SpecError(f"there is no {choice.repeated!r}", where="--repeated", fix=f"one of {', '.join(REPEATED)}")
    if choice.named_by and not choice.value:
        fix = f"name the column of numbers: --name {choice.named_by} --value VALUE"
        raise SpecError(
            "--name names the metrics of numbers, and no column of numbers is named", where="--name", fix=fix
        )


FOLDER = "-runs"  # after the name of the experiment file: the folder of its recordings


def check_free(file: Path, force: bool) -> None:
    """Raise SpecError if the file or its folder exists, unless `force`, or if they cannot be written there."""
    if not file.name or file.is_dir():
        raise SpecError("this is a folder, and no name of a file", where=str(file), fix="--out FOLDER/NAME.yaml")
    folder = _folder(file)
    if file.suffix not in (".yaml", ".yml"):
        raise SpecError("an experiment file ends in .yaml", where=str(file), fix=f"--out {file}.yaml")
    if not file.parent.is_dir():
        raise SpecError("there is no such folder", where=str(file.parent), fix="make it, or name another: --out FILE")
    for path in (file, folder):
        if path.exists() and not force:
            raise SpecError(
                "it exists already", where=str(path), fix="--force replaces it; or name another: --out FILE"
            )
    if folder.exists() and not folder.is_dir():
        raise SpecError("a file and a folder of runs are to be written, and one is the other", where=str(file))
    if others := [path.name for path in folder.glob("*") if path.suffix != SUFFIX]:
        what = f"the folder has files that no import wrote, such as {others[0]}"
        raise SpecError(what, where=str(folder), fix="move them, or name another: --out FILE")


def write(file: Path, kind: str, selection: Selection) -> None:
    """Write the experiment file and its folder of recordings. An earlier file is kept as `NAME.yaml.old`.

    kind  the kind of source, for the title

    Raises SpecError, with nothing written, if plat cannot read the file that it would write.
    """
    from plat.spec.expansion.experiment import load_experiment

    scratch, folder = scratch_name(file.absolute()).with_suffix(""), _folder(file)
    title = f"{file.stem} (imported from {kind})"
    with os_errors_as(SpecError, "the runs cannot be written", file.parent, "make room or name another: --out FILE"):
        try:
            (scratch / folder.name).mkdir(parents=True)
            for each in selection.runs:
                _write_run(scratch / folder.name, kind, each)
            text = experiment_text(title, folder.name, selection)
            write_file(scratch / file.name, text.encode(errors="surrogatepass"))
            try:
                load_experiment(scratch / file.name)
            except SpecError as error:
                fix = "choose values that an experiment file can hold: --axes A,B"
                raise SpecError(f"the runs make no experiment: {error.what}", where=error.where, fix=fix) from None
            if proposed := _proposed(scratch / file.name, text, selection):
                write_file(scratch / file.name, f"{text}{commented(proposed)}".encode(errors="surrogatepass"))
            publish_folder(scratch / folder.name, folder.absolute())
            if file.exists():
                os.replace(file, file.with_name(f"{file.name}.old"))  # it may have claims
            os.replace(scratch / file.name, file)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _proposed(file: Path, text: str, selection: Selection) -> str:
    """Return the first proposal for these runs that plat would take; "" without one."""
    from plat.spec.expansion.experiment import load_experiment

    for proposed in proposals(selection):
        write_file(file, f"{text}{proposed}".encode(errors="surrogatepass"))
        with suppress(SpecError):
            check_report(load_experiment(file))
            return proposed
    write_file(file, text.encode(errors="surrogatepass"))
    return ""


def _write_run(folder: Path, kind: str, each: Recorded) -> None:
    values = {axis_key(axis).removeprefix("args."): value for axis, value in each.values.items()}
    about = {"source": kind, "run": each.run.name, "config": each.run.values}
    text = recording_text(values, each.seed, about, each.run.history)
    write_file(recording_path(folder, values, each.seed), text.encode(errors="surrogatepass"), sync=False)


def _folder(file: Path) -> Path:
    return file.with_name(f"{file.stem}{FOLDER}")
