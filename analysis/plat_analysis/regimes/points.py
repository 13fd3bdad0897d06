"""The points of a search: runs that differ in seed or build only, with the regimes they ended in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plat.errors import SpecError
from plat_analysis.data.runs import Results, RunView
from plat_analysis.facets import Facets, Layout, Runs
from plat_analysis.regimes.probe import LEVEL_SHARE
from plat_analysis.regimes.regime_table import RunRegime, measurements, run_regime
from plat_analysis.regimes.thresholds import Thresholds

REPLICATES = ("seed", "model.base.seed")  # the axes in which the runs of one point differ


@dataclass(frozen=True)
class Point:
    """All runs of one choice of the other axes.

    values  axis -> its value, as text
    runs    each run with its regime; those without a result are among them
    """

    values: dict[str, str]
    runs: list[RunRegime]
    numbers: list[dict[str, float | None]]

    @property
    def finished(self) -> list[RunRegime]:
        return [item for item in self.runs if not item.run.missing]

    @property
    def regimes(self) -> Counter[str]:
        """How many of the finished runs ended in each regime."""
        return Counter(item.regime.name for item in self.finished)

    def mean(self, quantity: str) -> float | None:
        """The mean over the finished runs that measured it (see `regime_table.measurements`); None without any."""
        values = [value for numbers in self.numbers if (value := numbers[quantity]) is not None]
        return float(np.mean(values)) if values else None


def points(results: Results, axes: Sequence[str], limits: Thresholds) -> list[Point]:
    """The points in the order of the experiment file, told apart by these axes.

    SpecError: two runs of one seed and build are in one point, because they differ in another axis.
    """
    facets = Facets(results, Layout.of(rows=axes))
    return [_point(results, _values(runs, axes), runs, limits) for runs in facets.places.values()]


def _values(runs: Runs, axes: Sequence[str]) -> dict[str, str]:
    """Axis -> its value, which the runs of one point share."""
    run = next(iter(runs.values()))
    return {axis: run.axis(axis) for axis in axes}


def varied_axes(results: Results) -> list[str]:
    """The axes of the matrix with more than one value, without those in which the runs of one point differ."""
    values: dict[str, set[str]] = {}
    for run in results.positions:
        for axis in run.axes:
            values.setdefault(axis, set()).add(run.axis(axis))
    axes = [axis for axis, seen in values.items() if len(seen) > 1 and axis not in REPLICATES]
    if not axes:
        raise SpecError("no axis of the matrix has several values", mend="a search needs points: see `matrix`")
    return axes


def _point(results: Results, values: dict[str, str], runs: Runs, limits: Thresholds) -> Point:
    judged = [run_regime(results, run, limits) for run in runs.values()]
    numbers = [
        measurements(results, item) | {"templates_end": _last(results, item.run, LEVEL_SHARE.format("template"))}
        for item in judged
        if not item.run.missing
    ]
    return Point(values, judged, numbers)


def _last(results: Results, run: RunView, metric: str) -> float | None:
    _, values = results.curve(run.id, metric)
    return float(values[-1]) if len(values) else None
