"""Refuse overrides that contradict each other: two places of one experiment that set the same key.

Otherwise one would silently win, and runs would have labels that do not match their values. Two cases are allowed:
`base` sets a key and a named bundle of an axis sets it again (`SGD: {}`, `Adam: {optimizer: adam}`); the file sets a
key and the command line overrides it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from plat.errors import SpecError
from plat.spec.expansion.matrix import Axis, AxisValue
from plat.spec.reading.experiment_file import ExperimentFile
from plat.spec.reading.overrides import Assignment, CommandLine


def check_conflicts(file: ExperimentFile, line: CommandLine) -> None:
    """Raise SpecError if two places set the same key and contradict each other."""
    _command_line_and_bundles(file, line)
    _base_and_axes(file)
    _axes_and_axes(file.matrix.axes)
    for row in file.matrix.include_rows():
        _axes_and_axes([Axis(name, values, "") for name, values in row.items()])
    _options_and_names(file, line)


def _command_line_and_bundles(file: ExperimentFile, line: CommandLine) -> None:
    """Raise SpecError if the command line overrides a key of a named bundle: the bundle's name would be wrong."""
    given = {assignment.key: assignment for assignment in line.assignments}
    for axis in file.matrix.axes:
        for value, assignment in _assignments(axis):
            if assignment.key in given and assignment.key != axis.name:
                what = f"{axis.name} {value.label!r} sets {assignment.key} itself ({assignment.where})"
                fix = f"leave the override out, or choose values with matrix.{axis.name}=[...]"
                raise SpecError(what, where=given[assignment.key].where, fix=fix)


def _base_and_axes(file: ExperimentFile) -> None:
    """Raise SpecError if `base` sets a key that is an axis of the file, because no run would use that value."""
    listed = file.document.data.get("matrix") or {}
    for assignment in file.base:
        if assignment.key in listed and not isinstance(listed[assignment.key], dict):
            what = f"base sets {assignment.key}, and the axis {assignment.key} overrides it in every run"
            fix = f"remove it from base; the axis is at {file.document.where_key('matrix', assignment.key)}"
            raise SpecError(what, where=assignment.key_place(), fix=fix)


def _axes_and_axes(axes: Iterable[Axis]) -> None:
    """Raise SpecError if two axes set the same key, because the second would override the first."""
    setters: dict[str, tuple[Axis, AxisValue, Assignment]] = {}
    for axis in axes:
        own: dict[str, tuple[Axis, AxisValue, Assignment]] = {}
        for value, assignment in _assignments(axis):
            if assignment.key in setters:
                raise _both_set(setters[assignment.key], (axis, value, assignment))
            own.setdefault(assignment.key, (axis, value, assignment))
        setters.update(own)


def _both_set(first: tuple[Axis, AxisValue, Assignment], second: tuple[Axis, AxisValue, Assignment]) -> SpecError:
    (axis, _, _), (bundle, value, assignment) = first, second
    if bundle.name == assignment.key:  # the second one lists plain values: point at the named bundle
        (bundle, value, assignment), (axis, _, _) = first, second
    return SpecError(
        f"{bundle.name} {value.label!r} sets {assignment.key}, and so does the axis {axis.name}",
        where=assignment.key_place(),
        fix=f"set {assignment.key} in one of the two: one would override the other",
    )


def _options_and_names(file: ExperimentFile, line: CommandLine) -> None:
    """Raise SpecError if a group and its name are both set.

    `task: digits` with `task.name: letters` would run letters with the options of digits.
    """
    given = {assignment.key: assignment for assignment in _everything(file, line)}
    for key, assignment in given.items():
        group = key.removesuffix(".name")
        if group != key and group in given:
            what = f"{group} selects {given[group].value!r} with its options, but {key} sets another name"
            raise SpecError(what, where=assignment.key_place(), fix=f"remove {key}, and choose with {group} alone")


def _everything(file: ExperimentFile, line: CommandLine) -> Iterator[Assignment]:
    yield from file.base
    for axis in file.matrix.axes:
        yield from (assignment for _, assignment in _assignments(axis))
    for row in file.matrix.include:
        for values in row.values.values():
            yield from (assignment for value in values for assignment in value.assignments)
    yield from line.assignments


def _assignments(axis: Axis) -> Iterator[tuple[AxisValue, Assignment]]:
    """Yield the assignments of an axis. For plain values, which all set the same key, only the first is given."""
    plain = bool(axis.values) and [assignment.key for assignment in axis.values[0].assignments] == [axis.name]
    for value in axis.values[:1] if plain else axis.values:
        for assignment in value.assignments:
            yield value, assignment
