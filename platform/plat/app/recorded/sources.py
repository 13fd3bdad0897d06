"""Import runs from any kind of source: write their recordings and their experiment file, all of them or nothing."""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from plat.app.recorded.metric_choice import REPEATED, Choice
from plat.app.recorded.selection import Recorded, Selection, select
from plat.characters import one_line
from plat.errors import SpecError, os_errors_as
from plat.spec.composition.pieces import OF_FILES
from plat.spec.expansion.matrix import label_key
from plat.store.disk.durable import publish_folder, scratch_name, write_file
from plat.trainer.recorded.spec import SUFFIX, recording_path, recording_text

# kind -> the function that reads it: (sources, choice) -> runs. Its module is imported only when it is used.
READERS = {
    "table": ("plat.app.recorded.table_source", "read_tables"),
    "csv": ("plat.app.recorded.table_source", "read_csv"),
    "tensorboard": ("plat.app.recorded.tensorboard_source", "read_tensorboard"),
    "mlflow": ("plat.app.recorded.mlflow_source", "read_mlflow"),
    "wandb": ("plat.app.recorded.wandb_source", "read_wandb"),
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
    if not sources:
        raise SpecError(f"no source is named: plat import {kind} SOURCE", where="the command line", fix="name one")
    module, name = READERS[kind]
    reader: Any = getattr(import_module(module), name)
    is_table = kind in OF_TABLES
    check_options(kind, choice)
    try:
        runs, notes = reader(sources, choice) if is_table else (reader(sources, choice), [])
    except RecursionError:
        raise SpecError("a config is nested too deeply", where=sources[0], fix="leave its run out") from None
    # the step of a table is a column, and its metrics may have been named by `value`
    selection = select(runs, replace(choice, step="") if is_table else choice)
    selection.notes[:0] = notes
    if not dry:
        write(out, kind, selection)
    return selection


OF_TABLES = ("table", "csv")


def check_options(kind: str, choice: Choice) -> None:
    """Raise SpecError for options of tables with another kind, and for a name of metrics without their value."""
    of_tables = {"--path": choice.path, "--beside": choice.beside, "--levels": choice.levels}
    of_tables |= {"--value": choice.value, "--name": choice.named_by, "--repeated": choice.repeated}
    if choice.repeated not in ("", *REPEATED):
        raise SpecError(f"there is no {choice.repeated!r}", where="--repeated", fix=f"one of {', '.join(REPEATED)}")
    given = [option for option, value in of_tables.items() if value]
    if given and kind not in OF_TABLES:
        raise SpecError(
            f"{given[0]} is for tables", where="the command line", fix=f"plat import table SOURCE {given[0]} ..."
        )
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
            publish_folder(scratch / folder.name, folder.absolute())
            if file.exists():
                os.replace(file, file.with_name(f"{file.name}.old"))  # it may have claims
            os.replace(scratch / file.name, file)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _write_run(folder: Path, kind: str, each: Recorded) -> None:
    values = {axis_key(axis).removeprefix("args."): value for axis, value in each.values.items()}
    about = {"source": kind, "run": each.run.name, "config": each.run.values}
    text = recording_text(values, each.seed, about, each.run.history)
    write_file(recording_path(folder, values, each.seed), text.encode(errors="surrogatepass"), sync=False)


def _folder(file: Path) -> Path:
    return file.with_name(f"{file.stem}{FOLDER}")


TAKEN = ("trainer", "seed", "recorded", "args", *OF_FILES)  # keys that mean something else in an experiment file
MOST_ALIKE = 20  # values that the comment at the top lists
LONGEST = 60  # characters of a value there


def experiment_text(title: str, folder: str, selection: Selection) -> str:
    """Return the text of the file. A grid with a few holes excludes these cells; other runs are listed one by one."""
    runs = selection.runs
    axes = {axis: distinct([each.values[axis] for each in runs]) for axis in selection.axes}
    columns: dict[str, list[Any]] = {**{axis_key(axis): axes[axis] for axis in axes}, "seed": _seeds(runs)}
    missing = math.prod(map(len, columns.values())) - len(runs)
    lines = [_comment(selection), f"title: {_scalar(title)}", "base:", "  trainer: recorded"]
    lines += [f"  recorded.folder: {_scalar(folder)}", "matrix:"]
    if missing > len(runs):
        columns = {axis_key(axis): [each.values[axis] for each in runs] for axis in axes}
        columns["seed"] = [each.seed for each in runs]
    lines += [f"  {_key(name)}: {_list(values)}" for name, values in columns.items()]
    if missing > len(runs):
        lines.append(f"zip: [{_list(list(columns))}]")
    elif missing:
        lines += ["exclude:", *_holes(columns, runs)]
    return "\n".join(filter(None, lines)) + "\n"


def axis_key(name: str) -> str:
    """Return the key of a value in an experiment file."""
    return f"args.{name}" if name.partition(".")[0] in TAKEN else name


def _holes(columns: dict[str, list[Any]], runs: Sequence[Recorded]) -> list[str]:
    """Return the rows that exclude every cell without a run; the last axis is the seed."""
    there = {tuple(map(label_key, [*each.values.values(), each.seed])) for each in runs}
    *names, seed = columns
    lines = []
    for cell in itertools.product(*(columns[name] for name in names)):
        labels = tuple(map(label_key, cell))
        seeds = [number for number in columns[seed] if (*labels, label_key(number)) not in there]
        if seeds:
            row = [f"{_key(name)}: {_scalar(value)}" for name, value in zip(names, cell, strict=True)]
            row += [f"seed: {_list(seeds)}"] if len(seeds) < len(columns[seed]) or not row else []
            lines.append(f"  - {{{', '.join(row)}}}")
    return lines


def _comment(selection: Selection) -> str:
    alike = [f"{name}={value}"[:LONGEST] for name, value in selection.alike.items()]
    shown = ", ".join(alike[:MOST_ALIKE]) + (", ..." if len(alike) > MOST_ALIKE else "")
    return f"# The same in all runs: {one_line(shown)}" if alike else ""


def _seeds(runs: Sequence[Recorded]) -> list[int]:
    return sorted({each.seed for each in runs})


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values: numbers in their order, then texts in order of appearance."""
    found = list({label_key(value): value for value in values}.values())
    numbers = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    return sorted(numbers) + [value for value in found if value not in numbers or isinstance(value, bool)]


def seeds_in_words(selection: Selection) -> str:
    """Return the seeds of all runs, or how many of them there are in a setting: `1, 2, 3` or `5 to 10 in a setting`."""
    groups: dict[tuple[Any, ...], set[int]] = {}
    for each in selection.runs:
        groups.setdefault(tuple(map(label_key, each.values.values())), set()).add(each.seed)
    if len({frozenset(seeds) for seeds in groups.values()}) == 1:
        return ", ".join(map(str, _seeds(selection.runs)))
    counts = sorted({len(seeds) for seeds in groups.values()})
    every = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}, of different numbers,"
    return f"{every} in a setting"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace(".", "").isalnum() and name[0].isalpha() else _scalar(name)


def _list(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(_scalar, values))}]"


def _scalar(value: Any) -> str:
    """Return a value as YAML reads it: JSON, and a text without quotes where it is only a word."""
    if isinstance(value, str) and value.isascii() and value.isidentifier() and value.lower() not in WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


WORDS = ("true", "false", "null", "nan", "inf", "yes", "no", "on", "off", "y", "n")
