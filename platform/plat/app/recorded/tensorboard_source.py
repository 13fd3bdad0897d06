"""Read runs from folders with TensorBoard's event files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from plat.app.recorded.choice import Choice
from plat.app.recorded.foreign_run import ForeignRun, merged
from plat.app.recorded.path_values import values_of
from plat.errors import SpecError
from plat.extras import require_extra
from plat.trainer.script.tensorboard import PATTERN, damage_of, scalars_of

PARTS = ("train", "training", "validation", "valid", "val", "test", "eval")  # folders of a run, not runs
CUT_OFF = "truncated"  # in the reader's message about a file whose writer was killed
TIME = re.compile(r"\d+(\.\d+)?")  # the folder that `SummaryWriter.add_hparams` makes


def read_tensorboard(sources: Sequence[str], choice: Choice) -> list[ForeignRun]:
    """Return the runs of folders, in the order of their names. A run with a file that is cut off has not finished.

    A run is the uppermost folder that has event files; `train`, `validation` and the like are parts of the run above
    them. The metrics of a folder inside a run begin with its name. Raises SpecError if there is no event file, if one
    is damaged, or if the package tensorboard is missing.
    """
    require_extra("tensorboard", "plat import tensorboard", "the command line")
    folders = [folder for source in sources for folder in _run_folders(Path(source))]
    return [_run_of(folder) for folder in dict.fromkeys(folders)]


def _run_folders(source: Path) -> list[Path]:
    fix = "name folders with event files (events.out.tfevents...)"
    if not source.is_dir():
        raise SpecError("there is no such folder", where=str(source), fix=fix)
    having = sorted({path.parent for path in source.rglob(PATTERN) if path.is_file()})
    if not having:
        raise SpecError("the folder has no event file", where=str(source), fix=fix)
    tops = dict.fromkeys(folder.parent if _is_part(folder, source) else folder for folder in having)
    return [folder for folder in tops if not any(above in tops for above in folder.parents)]


def _is_part(folder: Path, source: Path) -> bool:
    return folder.name.lower() in PARTS and folder != source


def _run_of(folder: Path) -> ForeignRun:
    files = sorted(folder.rglob(PATTERN))
    whole = [_is_whole(path) for path in files]
    found = [each for path in files for each in _logged(path, folder)]
    found.sort(key=lambda each: each[0])  # by time: of two values of a step the later counts
    return ForeignRun(
        str(folder), values_of(folder, folder), merged(each[1:] for each in found), str(folder), all(whole)
    )


def _is_whole(path: Path) -> bool:
    """Return False for a file that is cut off, as after a kill. Raises SpecError for another damage."""
    what = damage_of(path)
    if what and CUT_OFF not in what:
        fix = "take another copy, or remove the file"
        raise SpecError(f"the event file is damaged: {what}", where=str(path), fix=fix)
    return not what


def _logged(path: Path, folder: Path) -> Iterator[tuple[float, int, dict[str, float]]]:
    """Yield time, step and metrics of one file."""
    below = path.parent.relative_to(folder).parts
    before = "".join(f"{part}/" for part in below if not TIME.fullmatch(part))
    for logged in scalars_of(path):
        yield logged.time, logged.step, {before + name: value for name, value in logged.metrics.items()}
