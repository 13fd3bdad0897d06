"""The matrix of an experiment file: the product of its axes, with `zip`, `include` and `exclude`.

Cells come in file order: first the product, in which the last axis changes fastest, then the included rows. The number
of cells is computed before the first one is made, so that a matrix that is too large costs nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.spec.reading.overrides import MAX_RUNS, Assignment
from plat.suggest import suggest


@dataclass(frozen=True, slots=True, eq=False)
class AxisValue:
    """One value of an axis: its label and its overrides."""

    label: Any
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True)
class Axis:
    """One axis of the matrix: its name and its values in order.

    where     its position in the file, or in the command line
    known     labels that the file lists, as `label_key` returns them, chosen or not
    is_added  True if only the command line names the axis
    """

    name: str
    values: tuple[AxisValue, ...]
    where: str
    known: frozenset[Any] = frozenset()
    is_added: bool = False

    def labels(self) -> list[Any]:
        """Return the labels of the values, in order."""
        return [value.label for value in self.values]

    def left_out(self) -> list[Any]:
        """Return the labels of the file that the command line left out of this axis, sorted by their texts."""
        chosen = {label_key(value.label) for value in self.values}
        return sorted((label for flag, label in self.known if (flag, label) not in chosen), key=str)

    def varies(self) -> bool:
        """Return True if the axis has several values, including those that the command line did not choose."""
        return len(self.known | {label_key(value.label) for value in self.values}) > 1

    def find(self, label: Any) -> AxisValue | None:
        """Return the value with that label, or None."""
        return next((value for value in self.values if label_key(value.label) == label_key(label)), None)


@dataclass(frozen=True)
class Row:
    """An include or exclude row: axis (or, for include, key) -> its values."""

    values: dict[str, tuple[AxisValue, ...]]
    where: str


@dataclass(frozen=True)
class Matrix:
    """The axes, the groups of axes that advance together (`zips`), and the included and excluded rows."""

    axes: tuple[Axis, ...]
    zips: tuple[tuple[str, ...], ...] = ()
    include: tuple[Row, ...] = ()
    exclude: tuple[Row, ...] = ()
    where: str = ""

    def size(self) -> int:
        """Return the number of cells before any is excluded."""
        product = math.prod(len(group[0].values) for group in self._groups())
        return product + sum(math.prod(len(values) for values in row.values()) for row in self.include_rows())

    def cells(self) -> Iterator[dict[str, AxisValue]]:
        """Yield every cell not excluded, as axis -> value. Raises SpecError first if `size()` is above MAX_RUNS."""
        count = self.size()
        if count > MAX_RUNS:
            sizes = " x ".join(f"{axis.name} {len(axis.values):,}" for axis in self.axes)
            what = f"the matrix has {count:,} runs ({sizes})"
            raise SpecError(what, where=self.where, fix=f"at most {MAX_RUNS:,}; use fewer values")
        left_out = self._excluded()
        groups = self._groups()
        names = [axis.name for group in groups for axis in group]
        order = [axis.name for axis in self.axes]
        rows = (zip(*(axis.values for axis in group), strict=True) for group in groups)
        for choice in itertools.product(*rows):
            cell = dict(zip(names, itertools.chain.from_iterable(choice), strict=True))
            if names != order:
                cell = {name: cell[name] for name in order}
            if not left_out or not any(
                tuple(label_key(cell[name].label) for name in axes) in rows for axes, rows in left_out.items()
            ):
                yield cell
        for values in self.include_rows():
            for combination in itertools.product(*values.values()):
                yield dict(zip(values, combination, strict=True))

    def include_rows(self) -> Iterator[dict[str, tuple[AxisValue, ...]]]:
        """Yield each included row as axis (or key) -> its values there; an axis that is not named has all values."""
        for row in self.include:  # axes that a row does not name take all their values
            values = {axis.name: row.values.get(axis.name, axis.values) for axis in self.axes}
            yield {**values, **{name: value for name, value in row.values.items() if name not in values}}

    def _groups(self) -> list[list[Axis]]:
        """Return the axes that advance together, ordered by the first axis of each group."""
        by_name = {axis.name: axis for axis in self.axes}
        together = {name: names for names in self.zips for name in names}
        groups: list[list[Axis]] = []
        done: set[str] = set()
        for axis in self.axes:
            if axis.name in done:
                continue
            names = together.get(axis.name, (axis.name,))
            groups.append([by_name[name] for name in names])
            done.update(names)
        return groups

    def _excluded(self) -> dict[tuple[str, ...], set[tuple[Any, ...]]]:
        rows: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
        for row in self.exclude:
            names = tuple(sorted(row.values))
            keys = itertools.product(*([label_key(value.label) for value in row.values[name]] for name in names))
            rows.setdefault(names, set()).update(keys)
        return rows


def label_key(label: Any) -> tuple[bool, Any]:
    """Return a key that is equal for labels of the same value: 1 equals 1.0, and 1 does not equal true."""
    return isinstance(label, bool), label


def check_zips(names: Sequence[Sequence[str]], axes: Sequence[Axis], places: Sequence[str]) -> None:
    """Raise SpecError unless every zipped axis exists, appears once, and has the length of its group."""
    by_name = {axis.name: axis for axis in axes}
    seen: set[str] = set()
    for group, place in zip(names, places, strict=True):
        for name in group:
            if name not in by_name:
                raise SpecError(f"zip: unknown axis {name!r}", where=place, fix=suggest(name, by_name, "axes"))
            if name in seen:
                raise SpecError(f"zip: the axis {name!r} is named twice", where=place, fix="name it once")
            seen.add(name)
        lengths = {name: len(by_name[name].values) for name in group}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            what = f"zip: axes of different lengths: {sizes}"
            raise SpecError(what, where=place, fix="give them equally many values")
