"""Read scalars that a script writes for TensorBoard. Needs the extra `tensorboard`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plat.trainer.script.metrics import Logged

PATTERN = "*tfevents*"


class EventFiles:
    """The scalars in all TensorBoard event files below a folder, by the names of their tags."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loaders: dict[Path, Any] = {}

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the scalars since the last call, in the order of their times. `is_last` changes nothing."""
        for path in sorted(self._folder.rglob(PATTERN)):
            if path not in self._loaders:
                from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

                self._loaders[path] = EventFileLoader(str(path))
        found = [logged for loader in self._loaders.values() for event in loader.Load() for logged in _scalars(event)]
        yield from sorted(found, key=lambda logged: logged.time)


def scalars_of(path: Path) -> Iterator[Logged]:
    """Yield the scalars of one event file."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for event in EventFileLoader(str(path)).Load():
        yield from _scalars(event)


def damage_of(path: Path) -> str:
    """Return what is wrong with an event file, "" for a sound one. TensorBoard reads a damaged one up to the damage."""
    from tensorboard.compat.tensorflow_stub import errors
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import PyRecordReader_New

    reader = PyRecordReader_New(str(path))
    try:
        while True:
            reader.GetNext()
    except errors.OutOfRangeError:
        return ""
    except errors.DataLossError as error:
        return str(error.message)


def _scalars(event: Any) -> Iterator[Logged]:
    from tensorboard.util import tensor_util

    for value in event.summary.value:
        if value.metadata.plugin_data.plugin_name == "scalars":
            number = float(tensor_util.make_ndarray(value.tensor))
            yield Logged(int(event.step), {value.tag: number}, float(event.wall_time))
