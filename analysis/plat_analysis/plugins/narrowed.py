"""Tell an entry of a file that is wrong from one whose runs the overrides of the command line have left out.

`plat sweep table4.yaml matrix.filter=[none]` leaves a claim that compares filters without one of its sides. The file is
right, so its runs are done, and the claim says why it is not judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.errors import PlatError, PluginError, SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat_analysis.added_axes import parts


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
