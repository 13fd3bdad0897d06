"""Read `matrix`, `zip`, `include` and `exclude` of an experiment file, with the axes of the command line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from plat.errors import SpecError
from plat.spec.composition.leaf import show
from plat.spec.expansion.matrix import Axis, AxisValue, Matrix, Row, check_zips, label_key
from plat.spec.reading.overrides import Assignment, CommandLine, axis_text
from plat.spec.reading.yaml_reader import Document
from plat.suggest import suggest


def assignments(document: Document, path: tuple[str | int, ...]) -> Iterator[Assignment]:
    """Yield the overrides of the mapping at `path`, if any, with dotted keys. Raises SpecError for other data."""
    value = document.data
    for step in path:
        value = value.get(step) if isinstance(value, dict) else value[step]
        if value is None:
            return
    if not isinstance(value, dict):
        what = f"{path[-1]}: overrides must be a mapping, not {show(value)}"
        raise document.error(what, *path, fix="write `{key: value}`")
    yield from _flat(document, path, value, "")


def _flat(document: Document, path: tuple[str | int, ...], value: dict[str, Any], prefix: str) -> Iterator[Assignment]:
    for name, inner in value.items():
        inner_path = (*path, name)
        if isinstance(inner, dict):
            yield from _flat(document, inner_path, inner, f"{prefix}{name}.")
        else:
            yield Assignment(prefix + name, inner, document.where(*inner_path), document.where_key(*inner_path))


def list_at(document: Document, key: str) -> list[Any]:
    """Return the list at a top-level key of the file, [] if the key is absent. Raises SpecError if it is no list."""
    value = document.data.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise document.error(f"{key} must be a list", key, fix=f"write `{key}: [...]`")
    return value


class MatrixReader:
    """Reader of the matrix of one file; axes of the command line replace or extend its axes. Call `matrix()` once."""

    def __init__(self, document: Document, line: CommandLine) -> None:
        self.document = document
        self.line = line
        self.zipped: set[str] = set()  # zipped axes may list a value twice, because the other axis distinguishes them

    def matrix(self) -> Matrix:
        """Return the matrix of the file. Raises SpecError, with the position, for any mistake in it."""
        document = self.document
        data = document.data.get("matrix") or {}
        if not isinstance(data, dict):
            raise document.error("matrix must be a mapping", "matrix", fix="write `axis: [values]` below it")
        zips, places = self._zips()
        self.zipped = {name for group in zips for name in group}
        axes = [self._axis(name, value) for name, value in data.items()]
        names = [axis.name for axis in axes]
        axes = [self._chosen(axis) for axis in axes]
        for name, (values, place) in self.line.axes.items():
            if name not in names:
                axes.append(replace(self._list_axis(name, values, place), is_added=True))
        check_zips(zips, axes, places)
        by_name = {axis.name: axis for axis in axes}
        include = tuple(self._row("include", index, by_name) for index in range(len(list_at(document, "include"))))
        exclude = tuple(self._row("exclude", index, by_name) for index in range(len(list_at(document, "exclude"))))
        return Matrix(tuple(axes), zips, include, exclude, document.where_key("matrix"))

    def _axis(self, name: str, value: Any) -> Axis:
        path = ("matrix", name)
        place, key_place = self.document.where(*path), self.document.where_key(*path)
        self._check_commas(name, value, place)
        if isinstance(value, dict):
            if not value:
                raise _empty(name, place)
            bundles = tuple(AxisValue(label, tuple(assignments(self.document, (*path, label)))) for label in value)
            return Axis(name, bundles, key_place)
        if isinstance(value, str):
            return self._list_axis(name, axis_text(name, value, place), place, key_place)
        if isinstance(value, list):
            places = [self.document.where(*path, index) for index in range(len(value))]
            return self._list_axis(name, value, place, key_place, places)
        if value is None:
            raise _empty(name, place)
        return self._list_axis(name, [value], place, key_place)

    def _check_commas(self, name: str, value: Any, place: str) -> None:
        """Raise SpecError for a range that YAML has cut at its comma, as it does inside braces and brackets."""
        texts = value if isinstance(value, list) else [value]
        for index, text in enumerate(texts):
            if isinstance(text, str) and text.startswith("range(") and ")" not in text:
                where = self.document.where("matrix", name, index) if isinstance(value, list) else place
                what = f"inside braces or brackets YAML cuts a value at its comma: {name} is read as {text!r}"
                raise SpecError(what, where=where, fix=f'put the range into quotes: {name}: "range(START,STOP)"')

    def _list_axis(
        self, name: str, values: list[Any], place: str, key_place: str | None = None, places: list[str] | None = None
    ) -> Axis:
        """Return an axis of plain values. Without `key_place` or `places`, key and values are at `place`."""
        key_place = place if key_place is None else key_place
        if not values:
            raise _empty(name, place)
        axis_values, seen = [], set[Any]()
        for value, value_place in zip(values, places or [place] * len(values), strict=True):
            if isinstance(value, (dict, list)):
                what = f"the axis {name!r} has a value that is not a scalar: {show(value)}"
                fix = "name bundles of overrides in the file: `axis: {name: {key: value}}`"
                raise SpecError(what, where=value_place, fix=fix)
            if {label_key(value), str(value)} & seen and name not in self.zipped:
                raise _twice(name, value, value_place)  # 1 and '1', too: a report cannot tell them apart
            seen |= {label_key(value), str(value)}
            axis_values.append(AxisValue(value, (Assignment(name, value, value_place, key_place, of_axis=True),)))
        return Axis(name, tuple(axis_values), key_place)

    def _chosen(self, axis: Axis) -> Axis:
        """Return the axis with the values that the command line gives, or the axis itself if it gives none."""
        if axis.name not in self.line.axes:
            return axis
        known = frozenset(label_key(value.label) for value in axis.values)
        values, place = self.line.axes[axis.name]
        if not isinstance(self.document.data["matrix"][axis.name], dict):
            return replace(self._list_axis(axis.name, values, place), known=known)
        if not values:
            raise _empty(axis.name, place)
        chosen = []
        for label in values:
            value = axis.find(label) or axis.find(str(label))
            if value is None:
                raise _no_value("", axis, label, place)
            if value in chosen:
                raise _twice(axis.name, label, place)
            chosen.append(value)
        return replace(axis, values=tuple(chosen), known=known)

    def _zips(self) -> tuple[tuple[tuple[str, ...], ...], list[str]]:
        groups = list_at(self.document, "zip")
        if groups and all(isinstance(name, str) for name in groups):
            return (tuple(groups),), [self.document.where("zip")]
        places = [self.document.where("zip", index) for index in range(len(groups))]
        for group, place in zip(groups, places, strict=True):
            if not isinstance(group, list) or not all(isinstance(name, str) for name in group):
                raise SpecError(
                    "zip: a group must be a list of axis names", where=place, fix="write `zip: [[task, model]]`"
                )
        return tuple(tuple(group) for group in groups), places

    def _row(self, kind: str, index: int, axes: dict[str, Axis]) -> Row:
        where = self.document.where(kind, index)
        row = self.document.data[kind][index]
        if not isinstance(row, dict) or not row:
            what = f"{kind}: a row must be a mapping of axes to values"
            raise SpecError(what, where=where, fix="write `- {task: digits}`")
        values = {}
        for name, given in row.items():
            place = self.document.where(kind, index, name)
            labels = given if isinstance(given, list) else [given]
            if name in axes:
                values[name] = self._row_values(kind, axes[name], labels, place)
            elif kind == "exclude":
                place = self.document.where_key(kind, index, name)
                raise SpecError(f"exclude: unknown axis {name!r}", where=place, fix=suggest(name, axes, "axes"))
            else:
                key_place = self.document.where_key(kind, index, name)
                values[name] = self._list_axis(name, labels, place, key_place).values
        return Row(values, where)

    def _row_values(self, kind: str, axis: Axis, labels: list[Any], place: str) -> tuple[AxisValue, ...]:
        bundle = isinstance((self.document.data.get("matrix") or {}).get(axis.name), dict)
        if kind == "include" and not bundle:
            return self._list_axis(axis.name, labels, place).values
        values = []
        for label in labels:
            if isinstance(label, (dict, list)):
                what = f"{kind}: {show(label)} is not a value"
                raise SpecError(what, where=place, fix="write `axis: value` or a list")
            value = axis.find(label)
            if value is None and bundle:
                listed = self._axis(axis.name, self.document.data["matrix"][axis.name]).values
                value = next((candidate for candidate in listed if candidate.label == str(label)), None)
                if value is not None and kind == "include":
                    continue  # the command line left this value out
            if value is None and label_key(label) in axis.known:
                value = AxisValue(label, ())
            if value is None:
                raise _no_value(f"{kind}: ", axis, label, place)
            values.append(value)
        return tuple(values)


def _empty(name: str, place: str) -> SpecError:
    return SpecError(f"the axis {name!r} has no values", where=place, fix="give it at least one, or remove it")


def _twice(name: str, label: Any, place: str) -> SpecError:
    return SpecError(f"the axis {name!r} lists {show(label)} twice", where=place, fix="remove one")


def _no_value(before: str, axis: Axis, label: Any, place: str) -> SpecError:
    what = f"{before}the axis {axis.name!r} has no value {show(label)}"
    return SpecError(what, where=place, fix=suggest(label, map(str, axis.labels()), "values"))
