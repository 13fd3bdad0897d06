"""Make builders and checks of functions of results. Options that several share are fields of a frozen dataclass.

    @takes(Comparison)
    def build(results: Results, compared: Comparison, *, paper: str | None = None) -> list[Table]: ...

    build(frames, experiment, pair="filter", paper="table4")

Signature and docstring of the result list the shared options, so they are checked and explained like own options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from plat.spec.expansion.decide import REPLICATES
from plat_analysis.data.results import Results

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

Artifact = TypeVar("Artifact")


def takes(
    options: type[Any] | None = None,
    before: Callable[..., object] | None = None,
    reads: Mapping[str, Callable[[Any], object]] | None = None,
    by_looks: bool = False,
) -> Callable[[Callable[..., Artifact]], Callable[..., Artifact]]:
    """Return a decorator that turns a function of (results, options, **rest) into a builder or check.

    The builder or check is called with (frames, experiment, **arguments).

    options  a dataclass. The arguments named like its fields make one instance, the function's second argument; the
             function gets the rest by name. A field without a default is required. The class's method
             `beforehand(results)` is the default of `before`. Its method `foreseen(results)`, if any, returns lines
             on what runs can show at best, which `plat plan` prints
    before   refuses impossible arguments before anything is trained: called with the wanted runs (`Results.planned`)
             and the arguments of the entry; raises SpecError
    reads    argument -> function that reads it, and raises SpecError if it cannot; called before anything is trained
    by_looks  True for a check that judges at the looks of `decide` where the file has them
    """
    shared = option_parameters(options) if options else {}

    def chosen(given: dict[str, Any]) -> list[Any]:
        """Take the options out of the arguments."""
        return [options(**{name: given.pop(name) for name in shared if name in given})] if options else []

    def decorate(function: Callable[..., Artifact]) -> Callable[..., Artifact]:
        @wraps(function)
        def call(frames: Any, experiment: Any, **given: Any) -> Artifact:
            given |= own_axes(experiment, parameters, given)
            return function(Results.of(frames, experiment), *chosen(given), **given)

        def beforehand(results: Results, **given: Any) -> None:
            given |= own_axes(results.experiment, parameters, given)
            before(results, **given) if before else chosen(given)[0].beforehand(results)

        def foreseen(results: Results, **given: Any) -> list[str]:
            given |= own_axes(results.experiment, parameters, given)
            return list(chosen(given)[0].foreseen(results))

        if before is not None or hasattr(options, "beforehand"):
            call.beforehand = beforehand  # type: ignore[attr-defined]
        if hasattr(options, "foreseen"):
            call.foreseen = foreseen  # type: ignore[attr-defined]
        call.reads = reads or {}  # type: ignore[attr-defined]
        call.by_looks = by_looks  # type: ignore[attr-defined]
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[2 if options else 1 :]
        fixed = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("frames", "experiment")]
        named = sorted([*shared.values(), *own], key=lambda parameter: parameter.default is not parameter.empty)
        parameters = frozenset(parameter.name for parameter in named)
        call.lays_out = parameters  # type: ignore[attr-defined]
        call.__signature__ = signature.replace(parameters=[*fixed, *named])  # type: ignore[attr-defined]
        call.__doc__ = "\n".join([inspect.getdoc(function) or "", *_explanations(options)])
        return call

    return decorate


def option_parameters(options: type[Any]) -> dict[str, inspect.Parameter]:
    """Return name -> keyword parameter, one for each field of a dataclass of options."""
    hints = get_type_hints(options)
    return {
        field.name: inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options)
    }


def _explanations(options: type[Any] | None) -> list[str]:
    """Return the lines on the fields: each class docstring after its first paragraph, base classes first."""
    classes = [kind for kind in reversed(options.__mro__) if is_dataclass(kind)] if options else []
    return [inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[2] for kind in classes]


# Lay out runs by their own axes where they have none of those that builders name by default.
#
# pair     the first axis with several values (seeds and builds left out); `baseline` and `treatment` are its first two
#          values, or the first other one, also where an entry names the axis alone. Of a claim the file decides which
#          axis this is: an override that chooses one value must not change its meaning
# columns  the second, if the builder has columns
# rows     all others, joined

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
