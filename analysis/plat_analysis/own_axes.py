"""Lay out runs by their own axes where they have none of those that builders name by default.

pair     the first axis with several values (seeds and builds left out); `baseline` and `treatment` are its first two
         values, or the first other one, also where an entry names the axis alone. Of a claim the file decides which
         axis this is: an override that chooses one value must not change its meaning
columns  the second, if the builder has columns
rows     all others, joined
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

REPLICATES = ("seed", "model.base.seed")  # axes whose values are repetitions, not conditions
BY_DEFAULT = ("task", "algorithm", "filter")  # the axes that builders name by default
PLACES = ("pair", "columns", "rows")


def varied_axes(experiment: Experiment) -> list[str]:
    """Return the axes with several values, repetitions left out, in the order of the file."""
    return [name for name, values in experiment.axes.items() if len(values) > 1 and name not in REPLICATES]


def added_axes(experiment: Experiment) -> list[str]:
    """Return the axes of `varied_axes` that the command line added to those of the file."""
    return [name for name in varied_axes(experiment) if name in experiment.added]


def _first_in_file(experiment: Experiment, taken: Collection[str]) -> str | None:
    """Return the first axis with several values in the file, whatever overrides chose; None if there is none."""
    for name, values in experiment.axes.items():
        several = len(values) + len(experiment.left_out.get(name, ())) > 1
        if several and name not in (*REPLICATES, *taken):
            return name
    return None


def has_own_axes(experiment: Experiment) -> bool:
    """Return True if the runs have no axis and no key of BY_DEFAULT."""
    if not experiment.runs:
        return False
    return not any(name in experiment.axes or name in experiment.runs[0].config for name in BY_DEFAULT)


def own_axes(experiment: Experiment, parameters: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that lay out these runs, for the parameters that an entry does not give.

    Returns {} unless `has_own_axes`: the builder's own defaults hold.
    """
    return by_axes(experiment, parameters, given) if has_own_axes(experiment) else {}


def by_axes(experiment: Experiment, parameters: Collection[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments that lay out the runs of any experiment by its axes, as `own_axes` does."""
    named = [given[name] for name in (*PLACES, "conditions") if name in given]
    taken = {axis for value in named for axis in ([value] if isinstance(value, str) else value or ())}
    free = [axis for axis in varied_axes(experiment) if axis not in taken]
    chosen: dict[str, Any] = {}
    compared = _first_in_file(experiment, taken) if "treatment" in parameters else next(iter(free), None)
    if "pair" in parameters and "pair" not in given and compared is not None:
        values = experiment.axes[compared]
        free = [axis for axis in free if axis != compared]
        chosen = {"pair": compared, "baseline": values[0], "treatment": values[1 if len(values) > 1 else 0]}
    elif isinstance(given.get("pair"), str) and "treatment" in parameters:
        chosen = _sides(experiment.axes.get(given["pair"], ()), given)
    elif "pair" in parameters and "pair" not in given and "treatment" not in parameters:
        chosen = {"pair": (), "baseline": ""}  # nothing is compared
    if "columns" in parameters and "columns" not in given:
        chosen["columns"] = free.pop(0) if free and "pair" in parameters else ()
    if "rows" in parameters and "rows" not in given:
        chosen["rows"] = tuple(free)
    return {name: value for name, value in chosen.items() if name in parameters and name not in given}


def _sides(values: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the two values of an axis to compare, of which an entry may give one; {} for an axis without values."""
    if not values:
        return {}
    first = given.get("baseline", next((one for one in values if one != given.get("treatment")), values[0]))
    return {"baseline": first, "treatment": next((one for one in values if one != first), first)}
