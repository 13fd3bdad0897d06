"""The space of a search: choices, and ranges of whole or real numbers. Each parameter is an override of a run.

optimizer: [sgd, adam]                                    a choice among values
algorithm.kl_coef: {float: [1e-3, 0.1], log: true}        a real number between two ends, on a logarithmic scale
train.mini_batches: {int: [1, 8], step: 1}                a whole number, both ends included
variant: {SGD: {}, Adam: {optimizer: adam}}               a choice among named bundles of overrides
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat.spec.composition.leaf import show
from plat.spec.reading.matrix_reader import assignments
from plat.spec.reading.overrides import Assignment
from plat.spec.reading.yaml_reader import Document
from plat.suggest import suggest

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

KINDS = {"float": float, "int": int}
RANGE_KEYS = ("float", "int", "log", "step")
RANGE_EXAMPLE = "write {float: [0.1, 0.9]} or {int: [1, 8]}, with `log: true` or `step: ...` if you like"
Number = int | float


@dataclass(frozen=True)
class Choice:
    """A choice: label -> its overrides. `where` is the place in the file."""

    name: str
    options: Mapping[Any, tuple[Assignment, ...]]
    where: str

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(list(self.options))

    def overrides(self, value: Any) -> tuple[Assignment, ...]:
        return self.options[value]

    def grid(self) -> list[Any]:
        """Return every value, for a grid search."""
        return list(self.options)

    corners = grid  # the values to check before the search starts

    def __str__(self) -> str:
        return "one of " + ", ".join(str(label) for label in self.options)


@dataclass(frozen=True)
class Range:
    """A range of numbers, both ends included."""

    name: str
    low: Number
    high: Number
    is_int: bool
    log: bool
    step: Number | None
    where: str
    where_key: str

    def distribution(self) -> BaseDistribution:
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.is_int:
            return IntDistribution(int(self.low), int(self.high), log=self.log, step=int(self.step or 1))
        return FloatDistribution(self.low, self.high, log=self.log, step=self.step)

    def overrides(self, value: Any) -> tuple[Assignment, ...]:
        return (Assignment(self.name, value, self.where, self.where_key, of_axis=True),)

    def grid(self) -> list[Any]:
        """Return every value. Raises SpecError for a real range without `step` and for a logarithmic one."""
        step = self.step or (1 if self.is_int else None)
        if step is None or self.log:
            what = f"a grid needs a list of values, and {self.name} is a range without steps"
            raise SpecError(what, where=self.where, fix="give it a `step`, or list the values: [0.1, 0.3, 0.9]")
        return [self.low + index * step for index in range(int((self.high - self.low) / step + 1e-9) + 1)]

    def corners(self) -> list[Any]:
        """Return the values to check before the search starts."""
        return [self.low, self.high]

    def __str__(self) -> str:
        notes = (", logarithmic" if self.log else "") + (f", in steps of {self.step:g}" if self.step else "")
        return f"{'whole number' if self.is_int else 'number'} from {self.low:g} to {self.high:g}{notes}"


Parameter = Choice | Range


def read_space(document: Document) -> dict[str, Parameter]:
    """Return the `space` of a search file. Raises SpecError for mistakes, except in keys: making runs checks those."""
    space = document.data.get("space")
    if not isinstance(space, dict) or not space:
        fix = "write `space:` and below it, for example, `optimizer: [sgd, adam]`"
        raise document.error("space must be a mapping of options to values", "space", fix=fix)
    return {name: _parameter(document, name, value) for name, value in space.items()}


def _parameter(document: Document, name: str, value: Any) -> Parameter:
    where, where_key = document.where("space", name), document.where_key("space", name)
    if name == "seed":
        fix = "give `seeds: range(3)` at the top of the file; every trial is their mean"
        raise SpecError("`seed` cannot be searched over: a search selects lucky seeds", where=where_key, fix=fix)
    if isinstance(value, list):
        return _listed(document, name, value, where, where_key)
    if not isinstance(value, dict) or not value:
        raise SpecError(f"space: {name} needs several values, not {show(value)}", where=where, fix=RANGE_EXAMPLE)
    if all(isinstance(inner, dict) for inner in value.values()):
        bundles = {label: tuple(assignments(document, ("space", name, label))) for label in value}
        return Choice(name, bundles, where)
    return _range(document, name, value, where_key)


def _listed(document: Document, name: str, values: list[Any], where: str, where_key: str) -> Choice:
    options: dict[Any, tuple[Assignment, ...]] = {}
    for index, value in enumerate(values):
        place = document.where("space", name, index)
        if isinstance(value, dict | list):
            what = f"space: {name} has a value that is not a scalar: {show(value)}"
            raise SpecError(what, where=place, fix=f"name bundles of overrides: {name}: {{NAME: {{key: value}}, ...}}")
        if value in options:
            raise SpecError(f"space: {name} lists {show(value)} twice", where=place, fix="remove one")
        options[value] = (Assignment(name, value, place, where_key, of_axis=True),)
    if len(options) < 2:
        raise SpecError(f"space: {name} has nothing to choose from", where=where, fix="list at least two values")
    return Choice(name, options, where)


def _range(document: Document, name: str, value: dict[str, Any], where_key: str) -> Range:
    for key in value:
        if key not in RANGE_KEYS:
            place = document.where_key("space", name, key)
            raise SpecError(f"space: {name}: unknown key {key!r}", where=place, fix=suggest(key, RANGE_KEYS, "keys"))
    kinds = [kind for kind in KINDS if kind in value]
    where = document.where("space", name)
    if len(kinds) != 1:
        raise SpecError(f"space: {name} needs `float` or `int`, one of them", where=where, fix=RANGE_EXAMPLE)
    where = document.where("space", name, kinds[0])
    ends, is_int = value[kinds[0]], kinds[0] == "int"
    step, log = value.get("step"), value.get("log", False)
    numbers = (int,) if is_int else (int, float)
    if not isinstance(ends, list) or len(ends) != 2 or not all(_is(end, numbers) for end in ends):
        raise SpecError(f"space: {name}: {kinds[0]} needs two numbers", where=where, fix=RANGE_EXAMPLE)
    low, high = (KINDS[kinds[0]](end) for end in ends)
    if not low < high:
        raise SpecError(f"space: {name}: {low:g} is not less than {high:g}", where=where, fix="swap them")
    if not isinstance(log, bool):
        raise SpecError(f"space: {name}: log must be true or false", where=document.where("space", name, "log"))
    if log and low <= 0:
        what = f"space: {name}: a logarithmic scale cannot begin at {low:g}"
        raise SpecError(what, where=where, fix="begin above zero, or leave `log` out")
    if step is not None and (not _is(step, numbers) or step <= 0 or log):
        fix = "give a positive number, whole for `int`; a logarithmic range has no steps"
        raise document.error(f"space: {name}: {show(step)} is not a step of this range", "space", name, "step", fix=fix)
    return Range(name, low, high, is_int, log, None if step is None else KINDS[kinds[0]](step), where, where_key)


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
