"""Whether the report and the claims of an experiment file can be made, before anything is trained.

Arguments are checked against the signature of the builder or check and its annotations. Names have a meaning too, for
every package's builders: `rows`, `columns` and `pair` are axes, `baseline` and `treatment` values of the axis `pair`,
`paper` a table of the paper's file, `only`, `row` and `than` some of the rows, `thresholds` those of the regimes, and
`differ_in` the options in which the two sides of a pair may differ. The runs of the matrix are then laid out as the
entry asks: no place may get two runs of one seed, and the two sides of a pair must have the same seeds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from plat.errors import PlatError, SpecError
from plat.spec.yaml_reader import read
from plat.suggest import mend
from plat_analysis.plugins import registry
from plat_analysis.regimes.regime import Thresholds
from plat_analysis.results.controlled import check_sides
from plat_analysis.results.grid import conditions, paired_grid, panels, places
from plat_analysis.results.published import printed_table
from plat_analysis.results.runs import Results, RunView, spell

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

AXES = ("rows", "columns", "pair")
VALUES = ("baseline", "treatment")
ROWS = ("row", "than")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def check_entries(experiment: Experiment) -> None:
    """SpecError, at file:line:column, for the first entry of `report` or `claims` that cannot be made."""
    for index, entry in enumerate(experiment.report):
        _check_entry(experiment, ("report", index), "plat.reports", entry, ("builder",))
    for index, entry in enumerate(experiment.claims):
        _check_entry(experiment, ("claims", index), "plat.claims", entry, ("check", "id", "says"))


def _check_entry(
    experiment: Experiment, path: tuple[str, int], group: str, entry: Mapping[str, Any], own: tuple[str, ...]
) -> None:
    if not entry.get(own[0]):
        raise SpecError(
            f"{'a report entry' if own[0] == 'builder' else 'a claim'} names no {own[0]}",
            where=place(experiment, *path),
            mend=f"add `{own[0]}: <name>`",
        )
    function = registry.find(group, str(entry.get(own[0])), place(experiment, *path))
    given = {name: value for name, value in entry.items() if name not in own}
    parameters = dict(list(inspect.signature(function).parameters.items())[2:])
    current = ""
    try:
        for current, value in given.items():
            if current in parameters:
                _check_type(current, value, _hint(function, parameters[current].annotation))
        for current in [name for name in AXES if name in parameters]:
            _check_axes(
                experiment, current, given.get(current, parameters[current].default), default=current not in given
            )
        if "pair" in parameters:
            pair = str(given.get("pair", parameters["pair"].default))
            for current in [name for name in VALUES if name in parameters and name in given]:
                _check_value(experiment, pair, current, given[current])
        current = "paper"
        if current in parameters and given.get(current) is not None:
            printed_table(experiment, given[current])
        current = ""
        if all(name in parameters for name in given):
            defaults = {
                name: parameter.default
                for name, parameter in parameters.items()
                if parameter.default is not parameter.empty
            }
            current = "thresholds"
            if current in parameters:
                Thresholds.read(given.get(current))
            current = ""
            _check_layout(experiment, defaults | given)
    except SpecError as error:
        error.where = place(experiment, *path, *([current] if current in given else []))
        raise
    for name in given:  # an unknown argument is reported at its own place
        if name not in parameters:
            registry.check_arguments(function, given, place(experiment, *path, name))
    registry.check_arguments(function, given, place(experiment, *path))


def _check_layout(experiment: Experiment, arguments: Mapping[str, Any]) -> None:
    """Lay the runs out as a builder with these arguments would, without results."""
    if arguments.keys() >= {"rows", "columns", "pair", "baseline", "treatment"}:
        grid = paired_grid(
            None, experiment, *(arguments[name] for name in ("rows", "columns", "pair", "baseline", "treatment"))
        )
        for row in [*(arguments.get("only") or ()), *(arguments[name] for name in ROWS if name in arguments)]:
            if row not in grid.rows:
                raise SpecError(f"there is no row {row!r}", mend=mend(row, grid.rows, "rows"))
        check_sides(grid, arguments.get("differ_in") or ())
        _check_both_sides(experiment, grid.layout.pair, grid.layout.baseline, grid.layout.treatment)
    elif arguments.keys() >= {"rows", "columns", "pair"}:
        panels(Results.planned(experiment), arguments["rows"], arguments["columns"], arguments["pair"])
    elif arguments.keys() >= {"pair", "baseline", "treatment"}:
        pair = arguments["pair"]
        sides = conditions(Results.planned(experiment), pair, arguments["baseline"], arguments["treatment"])
        _check_both_sides(experiment, pair, sides[1], sides[2])
    elif isinstance(rows := arguments.get("rows"), str | list) and "columns" in arguments:
        places(Results.planned(experiment), [rows] if isinstance(rows, str) else rows, arguments["columns"])


def _check_both_sides(experiment: Experiment, pair: str, first: str, second: str) -> None:
    """SpecError where only one of the two values to be compared has runs."""
    present = {run.axis(pair) for run in Results.planned(experiment).positions}
    missing = [value for value in dict.fromkeys((first, second)) if value not in present]
    if first != second and not missing:
        return
    what = f"no run has {pair}={missing[0]}" if missing else f"every run has {pair}={first}"
    chosen = [override for override in experiment.overrides if override.split("=")[0] in (pair, f"matrix.{pair}")]
    raise SpecError(
        f"there are no two sides to compare: {what}",
        mend=f"leave out the override {' '.join(chosen)}, so that both sides run"
        if chosen
        else f"give the axis {pair!r} of the matrix both values",
    )


def place(experiment: Experiment, *path: str | int) -> str:
    """file:line:column of a part of the experiment file, e.g. `place(experiment, "report", 0)`."""
    try:
        return read(experiment.path).where(*path)
    except PlatError:  # the file is gone or has changed since
        return f"{experiment.path}: {'.'.join(map(str, path))}"


def _check_axes(experiment: Experiment, name: str, given: Any, default: bool) -> None:
    for axis in [given] if isinstance(given, str) else given or ():
        if axis in experiment.axes:
            continue
        try:
            for run in experiment.runs:
                RunView(run, None, "", {}, run.axes).axis(axis)
        except SpecError:
            what = f"{name}: {axis!r} is not an axis of the experiment"
            if default:
                axes = ", ".join(experiment.axes)
                raise SpecError(
                    f"{what}; it is the default, because the entry does not name `{name}`",
                    mend=f"add `{name}: AXIS` to the entry; axes: {axes}",
                ) from None
            raise SpecError(what, mend=mend(axis, experiment.axes, "axes")) from None


def _check_value(experiment: Experiment, pair: str, name: str, given: Any) -> None:
    if given is None:
        return
    known = [*experiment.axes.get(pair, ()), *experiment.left_out.get(pair, ())]
    positions = {id(run): RunView(run, None, "", {}, run.axes).axis(pair) for run in experiment.runs}
    included = [axes[pair] for axes, _ in experiment.cells if pair in axes]
    values = dict.fromkeys([*map(spell, known), *map(spell, included), *positions.values()])
    if spell(given) not in values:
        what = f"{name}: the axis {pair!r} has no value {spell(given)!r}"
        raise SpecError(what, mend=mend(spell(given), values, "values"))


def _hint(function: Callable[..., Any], annotation: Any) -> Any:
    """The type that an annotation stands for; Any where it cannot be evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(
            annotation, inspect.unwrap(function).__globals__
        )  # typing.get_type_hints would fail for all of them if it failed for one
    except Exception:
        return Any


def _check_type(name: str, value: Any, hint: Any) -> None:
    if not _fits(value, hint):
        raise SpecError(f"{name}: {value!r} is not {_described(hint)}", mend=f"give {_described(hint)}")


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in inner)
    if origin is Literal:
        return value in inner
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool)
    if hint in (str, bool):
        return isinstance(value, hint)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, dict) and (len(inner) != 2 or all(_fits(item, inner[1]) for item in value.values()))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return isinstance(value, list) and (not inner or all(_fits(item, inner[0]) for item in value))
    return True


def _described(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(_described(part) for part in inner if part is not NoneType)
    if origin is Literal:
        return "one of: " + ", ".join(map(str, inner))
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping" + (f" to {_described(inner[1])}" if len(inner) == 2 else "")
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return "a list" + (f" of {_described(inner[0])}" if inner else "")
    return str(getattr(hint, "__name__", hint))
