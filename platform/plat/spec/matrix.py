"""The matrix of an experiment file: the product of its axes, with `zip`, `include` and `exclude`.

Cells come in the order of the file: first the product, in which the last axis changes fastest, then the included rows.
The number of cells is known before the first one is made, so that a matrix that is too large costs nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.spec.overrides import MAX_RUNS, Assignment
from plat.suggest import mend


@dataclass(frozen=True, slots=True, eq=False)
class AxisValue:
    """One value of an axis: how it is called, and the overrides it stands for."""

    label: Any
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True)
class Axis:
    """One axis of the matrix: its name, and its values in order. `where` is its place in the file."""

    name: str
    values: tuple[AxisValue, ...]
    where: str
    known: frozenset[Any] = (
        frozenset()
    )  # labels (as `label_key` gives them) that the file lists, those not chosen included

    def labels(self) -> list[Any]:
        """The labels of the values, in order."""
        return [value.label for value in self.values]

    def left_out(self) -> list[Any]:
        """Values that the file lists and the command line did not choose."""
        chosen = {label_key(value.label) for value in self.values}
        return [label for flag, label in self.known if (flag, label) not in chosen]

    def varies(self) -> bool:
        """Whether it has several values, those of the file that the command line did not choose included."""
        return len(self.known | {label_key(value.label) for value in self.values}) > 1

    def find(self, label: Any) -> AxisValue | None:
        """The value with that label, or None."""
        return next((value for value in self.values if label_key(value.label) == label_key(label)), None)


@dataclass(frozen=True)
class Row:
    """An include or exclude row: axis (or, for include, key) -> the values it names."""

    values: dict[str, tuple[AxisValue, ...]]
    where: str


@dataclass(frozen=True)
class Matrix:
    """The axes, the groups of axes that advance together (`zips`), and the rows added and removed."""

    axes: tuple[Axis, ...]
    zips: tuple[tuple[str, ...], ...] = ()
    include: tuple[Row, ...] = ()
    exclude: tuple[Row, ...] = ()
    where: str = ""

    def size(self) -> int:
        """The number of cells before any is excluded."""
        product = math.prod(len(group[0].values) for group in self._groups())
        return product + sum(math.prod(len(values) for values in row.values()) for row in self.include_rows())

    def cells(self) -> Iterator[dict[str, AxisValue]]:
        """Every cell as axis -> value; SpecError first if there are too many."""
        count = self.size()
        if count > MAX_RUNS:
            sizes = " x ".join(f"{axis.name} {len(axis.values):,}" for axis in self.axes)
            raise SpecError(
                f"the matrix has {count:,} runs ({sizes})",
                where=self.where,
                mend=f"at most {MAX_RUNS:,}; use fewer values",
            )
        left_out = self._excluded()
        groups = self._groups()
        order = [axis.name for axis in self.axes]
        for choice in itertools.product(*(range(len(group[0].values)) for group in groups)):
            cell = {
                axis.name: axis.values[index] for group, index in zip(groups, choice, strict=True) for axis in group
            }
            if len(groups) != len(order):
                cell = {name: cell[name] for name in order}
            if not any(_key(cell, names) in rows for names, rows in left_out.items()):
                yield cell
        for values in self.include_rows():
            for combination in itertools.product(*values.values()):
                yield dict(zip(values, combination, strict=True))

    def include_rows(self) -> Iterator[dict[str, tuple[AxisValue, ...]]]:
        """The included rows as axis (or key) -> the values that it takes there."""
        return (self._row(row) for row in self.include)

    def _groups(self) -> list[list[Axis]]:
        """Axes that advance together, in the order of the first of each."""
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

    def _row(self, row: Row) -> dict[str, tuple[AxisValue, ...]]:
        """An included row: axes it leaves out run over all their values."""
        values = {axis.name: row.values.get(axis.name, axis.values) for axis in self.axes}
        return {**values, **{name: value for name, value in row.values.items() if name not in values}}

    def _excluded(self) -> dict[tuple[str, ...], set[tuple[Any, ...]]]:
        rows: dict[tuple[str, ...], set[tuple[Any, ...]]] = {}
        for row in self.exclude:
            names = tuple(sorted(row.values))
            keys = itertools.product(*([label_key(value.label) for value in row.values[name]] for name in names))
            rows.setdefault(names, set()).update(keys)
        return rows


def _key(cell: dict[str, AxisValue], names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(label_key(cell[name].label) for name in names)


def label_key(label: Any) -> tuple[bool, Any]:
    """A key that is equal for labels of the same value: 1 and 1.0 are the same value, 1 and true are not."""
    return isinstance(label, bool), label


def check_zips(names: Sequence[Sequence[str]], axes: Sequence[Axis], places: Sequence[str]) -> None:
    """SpecError unless every zipped axis exists, once, and the lengths agree."""
    by_name = {axis.name: axis for axis in axes}
    seen: set[str] = set()
    for group, place in zip(names, places, strict=True):
        for name in group:
            if name not in by_name:
                raise SpecError(f"zip: unknown axis {name!r}", where=place, mend=mend(name, by_name, "axes"))
            if name in seen:
                raise SpecError(f"zip: the axis {name!r} is named twice", where=place, mend="name it once")
            seen.add(name)
        lengths = {name: len(by_name[name].values) for name in group}
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise SpecError(
                f"zip: axes of different lengths: {sizes}", where=place, mend="give them equally many values"
            )
