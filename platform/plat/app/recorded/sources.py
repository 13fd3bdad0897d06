"""The kinds of sources, and the import from any of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from plat.app.recorded.choice import Choice
from plat.app.recorded.foreign_run import ForeignRun
from plat.app.recorded.selection import Selection, select
from plat.app.recorded.writing import check_free, write
from plat.errors import SpecError

# kind -> the function that reads it: (sources, choice) -> runs. Its module is imported only when it is used.
READERS = {
    "csv": ("plat.app.recorded.csv_source", "read_csv"),
    "tensorboard": ("plat.app.recorded.tensorboard_source", "read_tensorboard"),
    "mlflow": ("plat.app.recorded.mlflow_source", "read_mlflow"),
    "wandb": ("plat.app.recorded.wandb_source", "read_wandb"),
}


def import_runs(kind: str, sources: Sequence[str], out: Path, choice: Choice, *, force: bool = False) -> Selection:
    """Read runs of other tools, and write an experiment file of them and its folder; return what was written.

    kind   a key of READERS
    force  replace an existing file and its folder

    Raises SpecError, with nothing written, if the sources cannot be read or make no experiment.
    """
    check_free(out, force)
    if not sources:
        raise SpecError(f"no source is named: plat import {kind} SOURCE", where="the command line", fix="name one")
    module, name = READERS[kind]
    reader: Any = getattr(import_module(module), name)
    try:
        runs: list[ForeignRun] = reader(sources, choice)
    except RecursionError:
        raise SpecError("a config is nested too deeply", where=sources[0], fix="leave its run out") from None
    selection = select(runs, replace(choice, step="") if kind == "csv" else choice)  # a CSV's step is a column
    write(out, kind, selection)
    return selection
