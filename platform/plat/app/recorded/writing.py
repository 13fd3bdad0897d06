"""Write the recordings of an import and its experiment file: all of them, or nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from plat.app.recorded.experiment_text import axis_key, experiment_text
from plat.app.recorded.selection import Recorded, Selection
from plat.errors import SpecError, os_errors_as
from plat.store.disk.durable import publish_folder, scratch_name, write_file
from plat.trainer.recorded.recording import SUFFIX, recording_path, recording_text

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
