"""Lay out the runs of an experiment as rows x columns x conditions, with one run per seed and build at a position.

    facets = Facets(results, Layout.of(rows="variant", columns="task", conditions="filter"))
    facets.runs("PPO", "sokoban", "top_p")      # Replicate -> its run; {} where the matrix has none

Any axis, several axes together, or none may make rows, columns or conditions. With none, there is one, named "".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from plat.errors import SpecError
from plat_analysis.builder_options import has_own_axes
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.statistics.replicates import Replicate

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment

Runs = Mapping[Replicate, RunView]
AxisNames = str | Sequence[str] | None  # one axis, several whose values are joined, or none


class Place(NamedTuple):
    """Name a row, a column and a condition; one that no axis makes is ""."""

    row: str
    column: str
    condition: str


@dataclass(frozen=True)
class Layout:
    """Hold the axes that make the rows, the columns and the conditions."""

    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: AxisNames = None, columns: AxisNames = None, conditions: AxisNames = None) -> Layout:
        """Return a layout by axes as an experiment file names them: one name, a list of names, or None."""
        return cls(*(axes(names) for names in (rows, columns, conditions)))

    def place(self, run: RunView) -> Place:
        """Return the row, column and condition of a run. Raises SpecError if the run lacks one of the axes."""
        return Place(*(" · ".join(map(run.axis, names)) for names in (self.rows, self.columns, self.conditions)))

    def labels(self, row: str = "", column: str = "", condition: str = "") -> dict[str, str]:
        """Return the labels of an estimate; a number has the axis before it: `slip 50`."""
        parts = {"row": (self.rows, row), "column": (self.columns, column), "condition": (self.conditions, condition)}
        return {part: named_number(" · ".join(axes), value) for part, (axes, value) in parts.items()}

    def words(self, place: Place) -> str:
        """Return a place as text for a message: `GRPO × sokoban, filter=top_p`."""
        cell = " × ".join(filter(None, place[:2]))
        condition = f"{' · '.join(self.conditions)}={place.condition}" if self.conditions else ""
        return ", ".join(filter(None, [cell, condition]))

    def name(self, condition: str) -> str:
        """Return a condition in print: `Top-p` if `filter` makes the conditions, else e.g. `filter.value = 0.9`."""
        if self.conditions == ("filter",):
            return label(condition)
        return f"{' · '.join(self.conditions)} = {condition}"


def named_number(name: str, value: str) -> str:
    """Return a value that is a number with its name before it, any other unchanged."""
    return f"{name} {value}" if re.fullmatch(r"[-+.\d]\S*", value) else value


class Facets:
    """Hold the runs by place. `rows`, `columns` and `conditions` are names in the order of the experiment file.

    only  the conditions that are laid out, as `spell` writes them (default: all)

    Raises SpecError if a place has two runs of one seed and build, or a run lacks an axis of the layout.
    """

    def __init__(self, results: Results, layout: Layout, only: Sequence[str] = ()) -> None:
        self.results, self.layout = results, layout
        self.places: dict[Place, dict[Replicate, RunView]] = {}
        for run in results.positions:
            place = layout.place(run)
            if not only or place.condition in only:
                add_run(self.places.setdefault(place, {}), run, layout.words(place))
        self.rows = list(dict.fromkeys(place.row for place in self.places))
        self.columns = list(dict.fromkeys(place.column for place in self.places))
        self.conditions = list(dict.fromkeys(place.condition for place in self.places))

    def runs(self, row: str = "", column: str = "", condition: str = "") -> Runs:
        """Return replicate -> run at a place; {} if the matrix has none there. Not a copy."""
        return self.places.get(Place(row, column, condition), {})

    def row_label(self, row: str) -> str:
        """Return a row in print: `lr = 0.1` where runs are laid out by their own axes, else as `label` does."""
        return self._label(self.layout.rows, row)

    def column_label(self, column: str) -> str:
        """Return a column in print, as `row_label` does."""
        return self._label(self.layout.columns, column)

    def condition_label(self, condition: str) -> str:
        """Return a condition in print, as `row_label` does."""
        return self._label(self.layout.conditions, condition)

    def _label(self, names: tuple[str, ...], text: str) -> str:
        values = text.split(" · ") if len(names) > 1 else [text]
        if len(values) != len(names) or not has_own_axes(self.results.experiment):
            return label(text)
        return " · ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))

    def check_pairs(self, first: str, second: str) -> None:
        """Raise SpecError if two conditions that both have runs in a row and column differ there in seeds or builds.

        With `decide` they may: a row that has ended gets no more seeds, and another one may share its baseline.
        """
        if self.results.experiment.decide is not None:
            return
        for row, column in dict.fromkeys(place[:2] for place in self.places):
            sides = self.runs(row, column, first), self.runs(row, column, second)
            cell = " × ".join(filter(None, (row, column))) or " · ".join(self.layout.conditions)
            check_same_replicates(*sides, cell, first, second)

    def check_different(self, first: str, second: str) -> None:
        """Raise SpecError if a run is in both conditions of one row and column. Does nothing if `first == second`."""
        for row, column in dict.fromkeys(place[:2] for place in self.places):
            other = self.runs(row, column, second)
            for replicate, run in self.runs(row, column, first).items():
                if first != second and replicate in other and other[replicate].id == run.id:
                    raise SpecError(
                        f"{first} and {second} are the same run: {run.run.name}",
                        fix="compare two conditions whose options differ",
                    )


def axes(names: AxisNames) -> tuple[str, ...]:
    """Return the names as a tuple: (name,) for one name, () for None."""
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def rows_or(rows: AxisNames, experiment: Experiment, otherwise: AxisNames) -> AxisNames:
    """Return the axes that make the rows; by default `variant` where the matrix has it, else `otherwise`."""
    if rows is not None:
        return rows
    return "variant" if "variant" in experiment.axes else otherwise


def two_conditions(facets: Facets, baseline: Any, treatment: Any = None) -> tuple[str, str]:
    """Return baseline and treatment as `spell` writes them; the default treatment is the first other condition.

    Without another condition, the treatment is the baseline. Raises SpecError as `check_pairs` and `check_different`
    do, but not for a condition without runs.
    """
    first = spell(baseline)
    others = (condition for condition in facets.conditions if condition != first)
    second = spell(treatment) if treatment is not None else next(others, first)
    facets.check_pairs(first, second)
    facets.check_different(first, second)
    return first, second


def add_run(runs: dict[Replicate, RunView], run: RunView, place: str) -> None:
    """Add a run to `runs`; raise SpecError if one of its seed and build is there. `place` names them in the message."""
    if run.replicate in runs:
        raise SpecError(
            f"more than one run for {place}, seed {run.seed}: {runs[run.replicate].run.name} and {run.run.name}",
            fix="name the axis in which they differ under `rows`, if the builder has it, or choose one of its values",
        )
    runs[run.replicate] = run


def check_same_replicates(first: Runs, second: Runs, place: str, baseline: str, treatment: str) -> None:
    """Raise SpecError if both sides have runs and differ in seeds or builds. The three texts are for the message."""
    if not first or not second or first.keys() == second.keys():
        return
    many_builds = len({replicate.build for replicate in [*first, *second]}) > 1
    unpaired = {
        condition: ", ".join(str(r if many_builds else Replicate(None, r.seed)) for r in own if r not in other)
        for condition, own, other in ((baseline, first, second), (treatment, second, first))
    }
    only = "; ".join(f"only {condition} has {names}" for condition, names in unpaired.items() if names)
    raise SpecError(
        f"the two sides of a pair have different runs, {place}: {only}",
        fix="give both sides the same seeds and builds: check `include`, `exclude` and `zip`; a claim may compare them "
        "unpaired, with `units: runs`",
    )
