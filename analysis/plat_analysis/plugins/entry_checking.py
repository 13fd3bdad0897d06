"""Check the `report` and `claims` entries of an experiment file before anything is trained.

Arguments are checked against the signature and annotations of the builder or check. The names below have one meaning
in every package's builders, such as `rows` (axes) or `metric` (logged by runs). The runs of the matrix are then laid
out as the entry asks, without results.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from plat.errors import PlatError, SpecError
from plat.spec.expansion.experiment import Experiment, check_metric
from plat.spec.reading.yaml_reader import read
from plat_analysis.builder_options import has_own_axes, own_axes
from plat_analysis.data.published import printed_table
from plat_analysis.data.results import Results
from plat_analysis.plugins import builders
from plat_analysis.plugins.axis_checking import check_axes, check_layout, check_value
from plat_analysis.plugins.command_line import left_out, parts
from plat_analysis.plugins.expectations import expected_statuses
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import SUCCESSES

AXES = ("rows", "columns", "pair", "conditions")
VALUES = ("baseline", "treatment")
METRICS = ("metric", "metrics")
MEASURES = ("measure", "measures", "outcome", "proxies", "signal", "signals", "rivals")
NAMED = ("measures", "proxies", "signals", "rivals")  # name -> measure
OF_A_CLAIM = ("check", "id", "says", "expect", "ours")  # its keys that are not arguments of its check
SIZES = {"looks": math.inf, "last": math.inf, "smallest": math.inf, "least": 1.0}  # above 0, and at most that


def check_entries(experiment: Experiment) -> list[str]:
    """Check the entries of `report` and `claims`. Returns a note for each that overrides leave without its runs.

    Raises SpecError, at file:line:column, for the first entry that cannot be made of the file's matrix, and
    PluginError if a builder or check cannot be loaded.
    """
    return [*_checked(experiment, "report"), *check_claim_entries(experiment)]


def foreseen(experiment: Experiment) -> dict[str, list[str]]:
    """Return, for each claim whose check knows it, lines on what the runs can show at best: the smallest p-value.

    The claims must have passed `check_claim_entries`. Those that overrides leave without runs are left out.
    """
    found = {}
    for index, entry in enumerate(experiment.claims):
        given = {name: value for name, value in entry.items() if name not in OF_A_CLAIM}
        function = builders.find("plat.claims", str(entry["check"]), place(experiment, "claims", index))
        if hasattr(function, "foreseen") and not why_left_out(experiment, "claims", index):
            found[str(entry["id"])] = list(function.foreseen(Results.planned(experiment), **given))
    return found


def check_claim_entries(experiment: Experiment) -> list[str]:
    """Check the entries of `claims` as `check_entries` does. Raises SpecError for the first bad one."""
    return _checked(experiment, "claims")


def why_left_out(experiment: Experiment, kind: str, index: int) -> str:
    """Return why overrides leave no runs for an entry of `report` or `claims` (`kind`), "" if it can be made.

    Raises SpecError if the file itself is wrong, and PluginError if the builder or check cannot be loaded.
    """
    entry = getattr(experiment, kind)[index]
    group, own = ("plat.reports", ("builder",)) if kind == "report" else ("plat.claims", OF_A_CLAIM)
    return left_out(experiment, entry, lambda one: _check_entry(one, (kind, index), group, entry, own))


def _checked(experiment: Experiment, kind: str) -> list[str]:
    """Return a note for each entry of `report` or `claims` that is left out, with its place."""
    return [
        f"{place(experiment, kind, index)} is {why}"
        for index, entry in enumerate(getattr(experiment, kind))
        for part in parts(experiment, entry)
        if (why := why_left_out(part.experiment, kind, index))
    ]


def _check_entry(
    experiment: Experiment, path: tuple[str, int], group: str, entry: Mapping[str, Any], own: tuple[str, ...]
) -> None:
    """Check one entry of `report` or `claims`; `own` are the keys that are not arguments, the plug-in's name first."""
    where = place(experiment, *path)
    if not entry.get(own[0]):
        raise SpecError(
            f"{'a report entry' if own[0] == 'builder' else 'a claim'} names no {own[0]}",
            where=where,
            fix=f"add `{own[0]}: <name>`",
        )
    function = builders.find(group, str(entry.get(own[0])), where)
    if not isinstance(entry.get("ours", False), bool):
        raise SpecError(f"ours is {entry['ours']!r}", where=where, fix="true: the paper does not claim it; or false")
    if own == OF_A_CLAIM:
        expected_statuses(entry, place(experiment, *path, "expect") if "expect" in entry else where)
    given = {name: value for name, value in entry.items() if name not in own}
    checked = _Entry(experiment, path, function, given)
    checked.check_types()
    checked.check_axes_and_values()
    unknown = [name for name in given if name not in checked.parameters]
    if not unknown:
        checked.check_matrix()
    for name in unknown:  # report each at its position
        builders.check_arguments(function, given, place(experiment, *path, name))
    builders.check_arguments(function, checked.arguments_of_entry, where)
    checked.check_metrics()
    checked.check_measures()
    checked.check_smallest()
    checked.check_beforehand()


@dataclass(frozen=True)
class _Entry:
    """Hold the arguments that one entry of `report` or `claims` gives to its builder or check."""

    experiment: Experiment
    path: tuple[str, int]
    function: Callable[..., Any]
    given: Mapping[str, Any]

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """Return the parameters after the frames and the experiment, by name."""
        return dict(list(inspect.signature(self.function).parameters.items())[2:])

    @cached_property
    def named(self) -> dict[str, Any]:
        """Return the given arguments that the function declares."""
        return {name: value for name, value in self.given.items() if name in self.parameters}

    @cached_property
    def arguments(self) -> dict[str, Any]:
        """Return the given arguments, and the defaults of the others."""
        parameters = self.parameters.items()
        defaults = {name: each.default for name, each in parameters if each.default is not each.empty}
        return defaults | self.arguments_of_entry

    @cached_property
    def arguments_of_entry(self) -> dict[str, Any]:
        """Return the arguments that the entry gives, or that the axes of the experiment give for it."""
        return {**self.own_axes, **self.given}

    @cached_property
    def own_axes(self) -> dict[str, Any]:
        """Return the arguments that the axes of the experiment give where the entry does not."""
        return own_axes(self.experiment, getattr(self.function, "lays_out", ()), self.given)

    @contextlib.contextmanager
    def _at(self, name: str = "") -> Iterator[None]:
        """Give a SpecError the position of this argument, or of the entry where the argument is not given."""
        try:
            yield
        except SpecError as error:
            error.where = place(self.experiment, *self.path, *([name] if name in self.given else []))
            raise

    def check_types(self) -> None:
        """Raise SpecError for a given value of the wrong type, or a number outside its bounds in `SIZES`.

        The annotation in the plug-in's signature names the type. Arguments that the plug-in does not declare are
        skipped.
        """
        for name, value in self.named.items():
            with self._at(name):
                check_type(name, value, type_of(self.function, self.parameters[name].annotation))
                most = SIZES.get(name)
                if most is not None and isinstance(value, int | float) and not 0 < value <= most:
                    bounds = "above 0" if math.isinf(most) else f"above 0 and at most {most:g}"
                    raise SpecError(f"{name}: {value!r} is not {bounds}", fix=f"give a number {bounds}")

    def check_axes_and_values(self) -> None:
        """Raise SpecError where an axis, one of its values, or the paper's table that `paper` names does not exist."""
        pair = self.parameters.get("pair")
        by_default = pair is not None and isinstance(pair.default, str) and "pair" not in self.arguments_of_entry
        if by_default and "treatment" in self.parameters and has_own_axes(self.experiment):
            raise SpecError(
                "there are no two sides to compare: no axis of the matrix has two values",
                where=place(self.experiment, *self.path),
                fix="give an axis two values, or leave out the override that chose one of them",
            )
        for name in [name for name in AXES if name in self.parameters]:
            with self._at(name):
                check_axes(self.experiment, name, self.arguments.get(name), default=name not in self.given)
        if "pair" in self.parameters and "pair" in self.arguments:
            for name in [name for name in VALUES if name in self.named]:
                with self._at(name):
                    check_value(self.experiment, str(self.arguments["pair"]), name, self.given[name])
        if self.named.get("paper") is not None:
            with self._at("paper"):
                printed_table(self.experiment, self.given["paper"])

    def check_metrics(self) -> None:
        """Raise SpecError for a metric that no trainer of these runs logs."""
        for name in METRICS:
            given = self.named.get(name)
            named = given.values() if isinstance(given, Mapping) else given or ()  # a mapping: printed name -> metric
            for metric in [given] if isinstance(given, str) else named:
                with self._at(name):
                    check_metric(metric, self.experiment.runs)

    def check_measures(self) -> None:
        """Raise SpecError for an invalid measure, or one of a metric that no trainer of these runs logs."""
        for name in [name for name in MEASURES if name in self.named]:
            given = self.named[name]
            if given is None and self.parameters[name].default is None:
                continue
            with self._at(name):
                for measure in given.values() if name in NAMED and isinstance(given, Mapping) else [given]:
                    for metric in quantity(measure, results=Results.planned(self.experiment)).metrics:
                        check_metric(metric, self.experiment.runs, also=SUCCESSES)

    def check_smallest(self) -> None:
        """Raise SpecError where a change in another unit than points has the default `smallest`, which is in points."""
        if "smallest" in self.parameters and "smallest" not in self.given and self.given.get("measure") is not None:
            with self._at("measure"):
                measured = quantity(self.given["measure"])
                if measured.factor == 1:
                    raise SpecError(
                        f"the smallest effect of interest is not given: {measured.name} is not in percent",
                        fix="add `smallest:` in the unit of the measure, or `percent: true` to a share",
                    )

    def check_beforehand(self) -> None:
        """Raise the SpecError of the builder's own check (`builder_options.takes`), if any."""
        before = getattr(self.function, "beforehand", None)
        if before is not None:
            with self._at():
                before(Results.planned(self.experiment), **self.given)

    def check_matrix(self) -> None:
        """Raise SpecError where an argument cannot be read (`takes`), or the layout is impossible.

        The layout is not checked for a function with its own `beforehand`, which `check_beforehand` calls.
        """
        for name, read_argument in getattr(self.function, "reads", {}).items():
            with self._at(name):
                read_argument(self.given.get(name))
        if not hasattr(self.function, "beforehand"):
            with self._at():
                check_layout(self.experiment, self.arguments)


def place(experiment: Experiment, *path: str | int) -> str:
    """Return file:line:column, e.g. of `place(experiment, "report", 0)`; `FILE: report.0` if it cannot be read."""
    try:
        return read(experiment.path).where(*path)
    except PlatError:  # the file is gone or has changed since
        return f"{experiment.path}: {'.'.join(map(str, path))}"


# Check values of an experiment file against a plug-in's type annotations, with messages in plain words.

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def type_of(function: Callable[..., Any], annotation: Any) -> Any:
    """Return the type of an annotation; Any where it cannot be evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:  # one by one: typing.get_type_hints fails for all annotations of a function where it fails for one
        return eval(annotation, inspect.unwrap(function).__globals__)
    except Exception:
        return Any


def check_type(name: str, value: Any, hint: Any) -> None:
    """Raise SpecError unless an argument's value, as read from YAML, is of this type."""
    if not fits(value, hint):
        raise SpecError(f"{name}: {value!r} is not {described(hint)}", fix=f"give {described(hint)}")


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value is of this type, or YAML has no counterpart of it; inf, nan and bools are not numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in inner)
    if origin is Literal:
        return value in inner
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint in (str, bool):
        return isinstance(value, hint)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, dict) and (len(inner) != 2 or all(fits(item, inner[1]) for item in value.values()))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return isinstance(value, list) and (not inner or all(fits(item, inner[0]) for item in value))
    return True


def described(hint: Any) -> str:
    """Return the type in plain words, e.g. `text or a list of text`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(described(part) for part in inner if part is not NoneType)
    if origin is Literal:
        return "one of: " + ", ".join(map(str, inner))
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping" + (f" to {described(inner[1])}" if len(inner) == 2 else "")
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return "a list" + (f" of {described(inner[0])}" if inner else "")
    return str(getattr(hint, "__name__", hint))
