"""What the command line changed in an experiment file: axes that it added, and runs that it left out.

An experiment is split by the added axes, so that the entries of its file can lay out each part:
`plat sweep table4.yaml train.lr=1e-3,1e-4` gives two. An entry is built, and a claim is judged, once for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import PlatError, PluginError, SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat_analysis.builder_options import added_axes

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment


@dataclass(frozen=True)
class Part:
    """Hold the runs of an experiment with one value of each axis in `values`. `words`: `train.lr = 0.001`, or ""."""

    experiment: Experiment
    values: tuple[tuple[str, Any], ...] = ()

    @property
    def words(self) -> str:
        return ", ".join(f"{axis} = {value}" for axis, value in self.values)

    @property
    def ending(self) -> str:
        """Return what distinguishes a name of this part from those of the others: `/train.lr-0.001`, or ""."""
        return "".join(f"/{axis}-{value}" for axis, value in self.values)


def parts(experiment: Experiment, entry: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts for which an entry of `report` or `claims` is made, in the order of the axes' values.

    An added axis that the entry itself names is not split. Without one that is split, the only part has all runs.
    """
    named = set(_texts(entry))
    axes = tuple(axis for axis in added_axes(experiment) if axis not in named)
    return _split(_ById(experiment), axes) if axes else (Part(experiment),)


class _ById:
    """Give an experiment a hash, so that its parts are made once: results are shared by the experiment's identity."""

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment

    def __hash__(self) -> int:
        return id(self.experiment)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and other.experiment is self.experiment


@lru_cache(maxsize=16)
def _split(of: _ById, axes: tuple[str, ...]) -> tuple[Part, ...]:
    whole = of.experiment
    found = []
    for values in itertools.product(*(whole.axes[axis] for axis in axes)):
        chosen = dict(zip(axes, values, strict=True))
        cells = [
            (labels, run)
            for labels, run in whole.cells
            if all(labels.get(axis) == value for axis, value in chosen.items())
        ]
        ids = {run for _, run in cells}
        part = replace(
            whole,
            axes=whole.axes | {axis: [value] for axis, value in chosen.items()},
            runs=[run for run in whole.runs if run.id in ids],
            cells=cells,
            added=tuple(axis for axis in whole.added if axis not in chosen),
        )
        if cells:
            found.append(Part(part, tuple(chosen.items())))
    return tuple(found)


def _texts(value: Any) -> Iterator[str]:
    """Yield every text in a value, also inside its lists and mappings."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


# Tell an entry of a file that is wrong from one whose runs the overrides of the command line have left out.
#
# `plat sweep table4.yaml matrix.filter=[none]` leaves a claim that compares filters without one of its sides. The file
# is right, so its runs are done, and the claim says why it is not judged.


def narrowing(experiment: Experiment) -> list[str]:
    """Return the overrides that leave out values which the file gives to an axis."""
    axes = {axis for axis, values in experiment.left_out.items() if values}
    return [text for text in experiment.overrides if text.partition("=")[0].strip().removeprefix("matrix.") in axes]


def left_out(experiment: Experiment, entry: Mapping[str, Any], check: Callable[[Experiment], None]) -> str:
    """Return why overrides leave no runs for an entry, "" if it can be made.

    check  raises SpecError for an experiment in which the entry cannot be made

    Raises this SpecError if the entry cannot be made of the whole matrix either, and PluginError for wrong code.
    """
    try:
        check(experiment)
    except PluginError:
        raise
    except SpecError as error:
        chosen = narrowing(experiment)
        if not chosen or not _fits_the_file(experiment, chosen, entry, check):
            raise
        return f"left out because of {' '.join(chosen)}: {error.what}"
    return ""


def _fits_the_file(
    experiment: Experiment, chosen: list[str], entry: Mapping[str, Any], check: Callable[[Experiment], None]
) -> bool:
    """Return True if the entry can be made of the matrix without the overrides `chosen`."""
    others = tuple(text for text in experiment.overrides if text not in chosen)
    try:
        whole = _whole(experiment.path, experiment.path.stat().st_mtime_ns, others)
        for part in parts(whole, entry):
            check(part.experiment)
    except (PlatError, OSError):
        return False
    return True


@lru_cache(maxsize=4)
def _whole(path: Path, changed: int, overrides: tuple[str, ...]) -> Experiment:
    """Return the experiment of a file that was `changed` at this time."""
    return load_experiment(path, overrides)
