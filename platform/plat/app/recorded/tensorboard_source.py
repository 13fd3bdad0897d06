"""Read runs from folders with TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plat.app.recorded.foreign_run import ForeignRun, Read, merged
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.table_files import texts_of, values_of
from plat.errors import SpecError
from plat.extras import require_extra
from plat.trainer.script.readers.tensorboard import PATTERN, damage_of, part_of, scalars_of, tops

CUT_OFF = "truncated"  # in the reader's message about a file whose writer was killed


def read_tensorboard(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of folders, in the order of their names, and no notes.

    A run with a file that is cut off has not finished. `plat.trainer.script.readers.tensorboard` says what a run is,
    and how its metrics are called.

    Raises SpecError if there is no event file, if one is damaged, or if the package tensorboard is missing.
    """
    require_extra("tensorboard", "plat import tensorboard", "the command line")
    folders = [folder for source in sources for folder in _run_folders(Path(source))]
    return [_run_of(folder) for folder in dict.fromkeys(folders)], []


def _run_folders(source: Path) -> list[Path]:
    fix = "name folders with event files (events.out.tfevents...)"
    if not source.is_dir():
        raise SpecError("there is no such folder", where=str(source), fix=fix)
    having = sorted({path.parent for path in source.rglob(PATTERN) if path.is_file()})
    if not having:
        raise SpecError("the folder has no event file", where=str(source), fix=fix)
    return tops(having, source)


def _run_of(folder: Path) -> ForeignRun:
    files = sorted(folder.rglob(PATTERN))
    whole = [_is_whole(path) for path in files]
    found = [logged for path in files for logged in scalars_of(path, part_of(path.parent, folder))]
    found.sort(key=lambda logged: logged.time)  # of two values of a step the later counts
    history, replaced = merged(found)
    values, texts = values_of(folder, folder), texts_of(folder)
    return ForeignRun(str(folder), values, history, str(folder), all(whole), replaced, texts)


def _is_whole(path: Path) -> bool:
    """Return False for a file that is cut off, as after a kill. Raises SpecError for another damage."""
    what = damage_of(path)
    if what and CUT_OFF not in what:
        fix = "take another copy, or remove the file"
        raise SpecError(f"the event file is damaged: {what}", where=str(path), fix=fix)
    return not what
