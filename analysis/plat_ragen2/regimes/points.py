"""Group the runs of a search into points, which differ in more than seed or build, with their regimes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from plat.errors import SpecError
from plat_analysis.data.results import Results, RunView
from plat_analysis.facets import Facets, Layout
from plat_ragen2.regimes.probe_tables import LEVEL_SHARE
from plat_ragen2.regimes.regime import Thresholds
from plat_ragen2.regimes.regime_table import RunRegime, measurements, run_regime

REPLICATES = ("seed", "model.base.seed")  # these differ within a point


@dataclass(frozen=True)
class Point:
    """Hold all runs of one choice of the other axes.

    values  axis -> its value, as text
    runs    each run with its regime, runs without a result included
    """

    values: dict[str, str]
    runs: list[RunRegime]
    numbers: list[dict[str, float | None]]

    @property
    def finished(self) -> list[RunRegime]:
        return [item for item in self.runs if not item.run.missing]

    @property
    def regimes(self) -> Counter[str]:
        """Return how many of the finished runs ended in each regime."""
        return Counter(item.regime.name for item in self.finished)

    def mean(self, quantity: str) -> float | None:
        """Return the mean over finished runs of a key of `measurements`, or `templates_end`; None without a value."""
        values = [value for numbers in self.numbers if (value := numbers[quantity]) is not None]
        return float(np.mean(values)) if values else None


def points(results: Results, axes: Sequence[str], limits: Thresholds) -> list[Point]:
    """Return the points in the order of the experiment file, distinguished by these axes.

    Raises SpecError if two runs of one seed and build are in one point, because they differ in another axis.
    """
    facets = Facets(results, Layout.of(rows=axes))
    return [_point(results, axes, list(runs.values()), limits) for runs in facets.places.values()]


def varied_axes(results: Results) -> list[str]:
    """Return the axes of the matrix with several values, except `REPLICATES`. Raises SpecError if there are none."""
    values: dict[str, set[str]] = {}
    for run in results.positions:
        for axis in run.axes:
            values.setdefault(axis, set()).add(run.axis(axis))
    axes = [axis for axis, seen in values.items() if len(seen) > 1 and axis not in REPLICATES]
    if not axes:
        raise SpecError("no axis of the matrix has several values", fix="a search needs points: see `matrix`")
    return axes


def _point(results: Results, axes: Sequence[str], runs: Sequence[RunView], limits: Thresholds) -> Point:
    judged = [run_regime(results, run, limits) for run in runs]
    numbers = []
    for item in judged:
        if not item.run.missing:
            _, templates = results.curve(item.run.id, LEVEL_SHARE.format("template"))
            end = float(templates[-1]) if len(templates) else None
            numbers.append(measurements(results, item) | {"templates_end": end})
    return Point({axis: runs[0].axis(axis) for axis in axes}, judged, numbers)
