"""What is known of a setting before it is trained with a filter, beside what the filter then changes (Table 8).

A setting is a row of the layout, such as a task with an algorithm and a model. Its signal is measured on the rollouts
of the runs without the filter, before anything was learned, and its gain on the pairs of runs with and without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.contrasts.cell import Cell
from plat_analysis.contrasts.contrast import Contrast, Term, change
from plat_analysis.contrasts.estimates import Estimates
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, two_conditions
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS
from plat_analysis.statistics.intervals import MIN_JUDGED, Estimate

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Setting:
    """A setting with its mean signals and gain over runs, and these run by run where every run has all of them."""

    signals: Mapping[str, Estimate]
    gain: Estimate
    values: Array | None  # [signal..., gain] x run

    @property
    def judged(self) -> bool:
        """Whether every wanted run is there, and enough of them."""
        return self.values is not None and self.values.shape[1] >= MIN_JUDGED


@dataclass(frozen=True)
class Sides:
    """The settings of an experiment, laid out, with the two conditions that are compared in each."""

    facets: Facets
    baseline: str
    treatment: str


def sides_of(results: Results, settings: AxisNames, pair: str, baseline: object, treatment: object) -> Sides:
    """SpecError where there are fewer than six settings, or one lacks a side or its seeds."""
    names = (spell(baseline), spell(treatment))
    facets = Facets(results, Layout.of(settings, None, pair), only=names)
    two_conditions(facets, *names)
    for row in facets.rows:
        for name in names:
            if not facets.runs(row, "", name):
                raise SpecError(f"the setting {row!r} has no run with {pair} = {name}", mend="give it both sides")
    if len(facets.rows) < MIN_SETTINGS:
        raise SpecError(
            f"{len(facets.rows)} settings are too few to say what foretells a gain: it takes {MIN_SETTINGS}",
            mend="add settings to the matrix, or name more axes under `settings`",
        )
    return Sides(facets, *names)


def measured(sides: Sides, signals: Mapping[str, Quantity], outcome: Quantity) -> dict[str, Setting]:
    """Setting -> its signals, measured on the runs without the treatment, and what the treatment changes."""
    estimates = Estimates(sides.facets, builds="fixed")
    contrasts = {name: Contrast(Term(sides.baseline, signal)) for name, signal in signals.items()}
    gain = change(outcome, sides.baseline, sides.treatment)
    found = {}
    for row in sides.facets.rows:
        cell = estimates.cells[row, ""]
        levels = {name: cell.estimate(contrast) for name, contrast in contrasts.items()}
        found[row] = Setting(levels, cell.estimate(gain), _by_run(cell, [*contrasts.values(), gain]))
    return found


def _by_run(cell: Cell, contrasts: list[Contrast]) -> Array | None:
    """[contrast, run]; None where a wanted run lacks one of them."""
    columns = [cell.by_replicate(contrast) for contrast in contrasts]
    wanted = max(len(side.runs) for side in cell.sides.values())
    common = [replicate for replicate in columns[0] if all(replicate in column for column in columns)]
    if len(common) < wanted:
        return None
    return np.array([[column[replicate] for replicate in common] for column in columns])


def arrays(settings: Mapping[str, Setting]) -> Array | None:
    """[signal..., gain] x start x 1 x run, as `statistics.correlation` takes them; None where one may not be judged.

    Settings that start from the same base model on the same task play the same first batch, so the first signal is the
    same number run by run. They are one unit, a start, with the means of all else: otherwise one start would count
    many times. Starts may have different numbers of runs: what one lacks is NaN.
    """
    if not all(setting.judged for setting in settings.values()):
        return None
    starts: dict[tuple[float, ...], list[Array]] = {}
    for setting in settings.values():
        if setting.values is not None:
            starts.setdefault(tuple(np.round(setting.values[0], 9)), []).append(setting.values)
    if len(starts) < MIN_SETTINGS:
        return None
    blocks = [np.mean(group, axis=0) for group in starts.values()]
    most = max(block.shape[1] for block in blocks)
    padded = [np.pad(block, ((0, 0), (0, most - block.shape[1])), constant_values=np.nan) for block in blocks]
    return np.stack(padded, axis=1)[:, :, None, :]
