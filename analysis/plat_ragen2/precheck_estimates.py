"""Measure a signal of each setting before training with a filter, and the filter's gain (Table 8).

A setting is a row of the layout, such as a task with an algorithm and a model. Its signal is measured on the runs
without the filter, its gain on the pairs of runs with and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.contrasts.cell import Cell, Contrast, Term, change, in_all
from plat_analysis.contrasts.comparison import Compared
from plat_analysis.contrasts.families import Family, families_by_axes
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, two_conditions
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Gaining:
    """Hold the options of measuring what a treatment gains in each setting.

    settings   axes whose values together are the settings
    outcome    what the treatment changes (see `plat_analysis.quantities.metric`)
    pair       the axis with `baseline` and `treatment`
    within     axes or config keys: starts are permuted among those with the same values only, and compared with their
               mean. Default: the task, where runs have one; [] permutes all
    """

    settings: AxisNames
    outcome: Any = "final"
    pair: str = "filter"
    baseline: Any = "none"
    treatment: Any = "top_p"
    within: AxisNames = None

    def families(self, sides: Compared) -> dict[str, Family]:
        """Return setting -> its family. Raises SpecError as `families_by_axes`."""
        runs = {
            row: [run for side in sides.cells[row, ""].sides.values() for run in side.runs.values()]
            for row in sides.rows
        }
        within = self.within
        if within is None:
            first = next(iter(runs.values()))[0]
            within = "task" if "task" in first.axes or "task" in first.run.config else ()
        return dict(zip(runs, families_by_axes(list(runs.values()), within), strict=True))

    def sides(self, results: Results) -> Compared:
        """Return the settings laid out. Raises SpecError if they are too few, lack a side, or are not paired."""
        names = (spell(self.baseline), spell(self.treatment))
        facets = Facets(results, Layout.of(self.settings, None, self.pair), only=names)
        two_conditions(facets, *names)
        for row in facets.rows:
            for name in names:
                if not facets.runs(row, "", name):
                    what = f"the setting {row!r} has no run with {self.pair} = {name}"
                    raise SpecError(what, fix="give it both sides")
        if len(facets.rows) < MIN_SETTINGS:
            raise SpecError(
                f"{len(facets.rows)} settings are too few to predict a gain: at least {MIN_SETTINGS} are needed",
                fix="add settings to the matrix, or name more axes under `settings`",
            )
        return Compared(facets, *names, builds="fixed")

    def beforehand(self, results: Results) -> None:
        """Raise SpecError where the settings are too few or not paired, or `within` does not group them."""
        self.families(self.sides(results))


@dataclass(frozen=True)
class Setting:
    """Hold the mean signals and gain of a setting over runs, and its values run by run if no run lacks any.

    values  [signals then gain, run]
    family  the settings among which it is permuted
    """

    signals: Mapping[str, Estimate]
    gain: Estimate
    values: Array | None
    family: Family = frozenset()

    @property
    def judged(self) -> bool:
        """Return True if no wanted run is missing and there are at least `MIN_JUDGED` runs."""
        return self.values is not None and self.values.shape[1] >= MIN_JUDGED


def measured(
    sides: Compared, signals: Mapping[str, Quantity], outcome: Quantity, families: Mapping[str, Family]
) -> dict[str, Setting]:
    """Return setting -> its signals, measured on the runs with the baseline, and the treatment's gain."""
    contrasts = {name: Contrast(Term(sides.baseline, signal)) for name, signal in signals.items()}
    gain = change(outcome, sides.baseline, sides.treatment)
    found = {}
    for row in sides.rows:
        cell = sides.cells[row, ""]
        levels = {name: cell.estimate(contrast) for name, contrast in contrasts.items()}
        values = _by_run(cell, [*contrasts.values(), gain])
        found[row] = Setting(levels, cell.estimate(gain), values, families[row])
    return found


def _by_run(cell: Cell, contrasts: list[Contrast]) -> Array | None:
    """Return values [contrast, run]; None where a wanted run lacks one of them."""
    columns = [cell.by_replicate(contrast) for contrast in contrasts]
    wanted = max(len(side.runs) for side in cell.sides.values())
    common = in_all(columns)
    if len(common) < wanted:
        return None
    return np.array([[column[replicate] for replicate in common] for column in columns])


class Starts(NamedTuple):
    """Hold the starts of some settings: what each measured, and the family of each.

    values  [value, start, 1, run] for `statistics.correlation`: the signals, then the gain. The axis of length 1 is
            that of builds; a start with fewer runs is filled up with NaN
    """

    values: Array
    families: tuple[Family, ...]


def starts(settings: Mapping[str, Setting]) -> Starts | None:
    """Return the starts of settings: settings of one family whose first signal is equal in every run are one start.

    They share base model and task. A start has the means of their values. Return None if a setting may not be judged,
    or there are fewer than MIN_SETTINGS starts.
    """
    if not all(setting.judged for setting in settings.values()):
        return None
    groups: dict[tuple[Family, tuple[float, ...]], list[Array]] = {}
    for setting in settings.values():
        if setting.values is not None:
            key = setting.family, tuple(np.round(setting.values[0], 9))
            groups.setdefault(key, []).append(setting.values)
    if len(groups) < MIN_SETTINGS:
        return None
    blocks = [np.mean(group, axis=0) for group in groups.values()]
    most = max(block.shape[1] for block in blocks)
    padded = [np.pad(block, ((0, 0), (0, most - block.shape[1])), constant_values=np.nan) for block in blocks]
    return Starts(np.stack(padded, axis=1)[:, :, None, :], tuple(family for family, _ in groups))
