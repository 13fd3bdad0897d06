"""Read scalars that a script writes for TensorBoard. Needs the extra `tensorboard`.

A run is the uppermost folder that has event files; `train`, `validation` and the like are parts of the run above them.
The metrics of a folder inside a run begin with its name, as those of `SummaryWriter.add_scalars`: `loss_train/loss`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plat.characters import as_lines
from plat.trainer.script.readers.objects import Logged, Refuse

NOTHING = SimpleNamespace(Load=lambda: ())  # in place of the loader of a damaged file
PATTERN = "*tfevents*"
PARTS = ("train", "training", "validation", "valid", "val", "test", "eval")  # folders of a run, not runs
TIME = re.compile(r"\d+(\.\d+)?")  # the folder that `SummaryWriter.add_hparams` makes


def tops(folders: Iterable[Path], source: Path) -> list[Path]:
    """Return the folders of runs among the folders below `source` that have event files, in their order."""
    found = dict.fromkeys(
        folder.parent if folder.name.lower() in PARTS and folder != source else folder for folder in folders
    )
    return [folder for folder in found if not any(above in found for above in folder.parents)]


class EventFiles:
    """The scalars in all TensorBoard event files below a folder, by the names of their tags.

    If it has several runs, names of all but the first begin with the path of the run.
    """

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self._folder, self._refuse = folder, refuse
        self._loaders: dict[Path, Any] = {}
        self._tops: list[Path] = []

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the scalars since the last call, in the order of their times. `is_last` changes nothing."""
        added = [path for path in self._folder.rglob(PATTERN) if path not in self._loaders]
        for path in sorted(added, key=lambda path: path.name):  # names begin with the time at which they were made
            from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

            self._loaders[path] = EventFileLoader(str(path))
        if added:
            self._tops = tops((path.parent for path in self._loaders), self._folder)
            for other in self._tops[1:]:
                what = f"there are several runs of TensorBoard, so metrics of this one begin with {self._name(other)}"
                self._refuse(what, str(other), "")
        found: list[Logged] = []
        for path, loader in self._loaders.items():
            try:
                for event in loader.Load():
                    found += _scalars(event, self._before(path.parent))
            except Exception as error:  # what TensorBoard makes of a damaged record
                self._refuse(f"the event file is damaged: {_in_words(error)}", str(path), "")
                self._loaders[path] = NOTHING
        yield from sorted(found, key=lambda logged: logged.time)

    def _before(self, folder: Path) -> str:
        """Return what stands before the names of a folder's metrics."""
        top = next(top for top in self._tops if folder.is_relative_to(top))
        return (self._name(top) if top != self._tops[0] else "") + part_of(folder, top)

    def _name(self, top: Path) -> str:
        return f"{top.relative_to(self._folder).as_posix()}/"


def part_of(folder: Path, top: Path) -> str:
    """Return the path of a folder below that of its run, as the beginning of names."""
    return "".join(f"{part}/" for part in folder.relative_to(top).parts if not TIME.fullmatch(part))


def scalars_of(path: Path, before: str = "") -> Iterator[Logged]:
    """Yield the scalars of one event file. `before` stands before their names."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for event in EventFileLoader(str(path)).Load():
        yield from _scalars(event, before)


def damage_of(path: Path) -> str:
    """Return what is wrong with an event file, "" for a sound one. TensorBoard reads a damaged one up to the damage."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.tensorflow_stub import errors
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    reader = PyRecordReader_New(str(path))
    try:
        while True:
            reader.GetNext()
            list(_scalars(Event.FromString(reader.record()), ""))
    except errors.OutOfRangeError:
        return ""
    except errors.DataLossError as error:
        return str(error.message)
    except Exception as error:  # such as OverflowError and DecodeError
        return _in_words(error)


def _in_words(error: Exception) -> str:
    return f"a record of it cannot be read ({type(error).__name__}: {as_lines(str(error))[:80]})"


def _scalars(event: Any, before: str) -> Iterator[Logged]:
    from tensorboard.util import tensor_util

    for value in event.summary.value:
        if value.metadata.plugin_data.plugin_name == "scalars":
            number = float(tensor_util.make_ndarray(value.tensor))
            yield Logged(int(event.step), {before + value.tag: number}, float(event.wall_time), before + value.tag)
