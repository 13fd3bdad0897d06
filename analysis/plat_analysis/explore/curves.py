"""The metrics of all runs, thinned until they fit into the page: steps as differences, values as base64 of floats."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.spec.expansion.experiment import claimed
from plat.words.metric_names import SUCCESS, own_metric
from plat_analysis.data.labels import label
from plat_analysis.data.results import Curve, Results
from plat_analysis.report.build import HOUSEKEEPING
from plat_analysis.shown_text import printable

MOST_POINTS = 240_000  # of all curves together: about 2 MB of the page
FIRST = 1 / 3  # the share of the first metric in them, at least
MOST_OF_A_CURVE = 400  # points
LEAST_OF_A_CURVE = 16  # points; with less, metrics are left out
MOST_METRICS = 60
LARGEST_FLOAT32 = 3e38


@dataclass(frozen=True)
class Metrics:
    """Hold the metrics of a page.

    keys      as the store names them, the most important first; the first may be SUCCESS
    labels    as printed
    left_out  the names of metrics for which the page has no room
    """

    keys: list[str]
    labels: list[str]
    left_out: list[str]

    @classmethod
    def of(cls, results: Results) -> Metrics:
        """Return the headline metric, then those of the script and of claims, then others, housekeeping last."""
        logged = results.logged()
        headline = [SUCCESS] if any(len(results.curve(run.id, SUCCESS)[0]) for run in results.runs) else []
        own = (own_metric(run.run.config)[0] for run in results.runs)
        named = [key for key in (*own, *claimed(results.experiment.claims)) if key in logged]
        others = sorted(logged, key=lambda key: HOUSEKEEPING.search(key) is not None)
        first = set(results.headlines) if headline else set()
        keys = [*headline, *(key for key in dict.fromkeys([*named, *others]) if key not in first)]
        most = max(1, min(MOST_METRICS, MOST_POINTS // (LEAST_OF_A_CURVE * max(1, len(results.runs)))))
        return cls(
            keys[:most],
            [printable(label(results.metric(key))) for key in keys[:most]],
            [printable(key) for key in keys[most:]],
        )


def metric_columns(results: Results, metrics: Metrics) -> tuple[list[list[int]], list[dict[str, Any]], int]:
    """Return the curves and last values of metrics, ready for JSON.

    Returns: the different arrays of steps, each as its first step and the differences; a mapping for each metric
    (`label`; `wide`: whether its values are float64; and for each run `curve`: [number of its steps, values] or 0,
    `last`: the last value or None, `diverged`: the step from which it is no number or None); and the number of
    points to which curves were thinned, the smallest of all metrics, or 0 if none was.
    """
    steps: dict[bytes, int] = {}
    arrays: list[list[int]] = []
    columns: list[dict[str, Any]] = []
    thinned: list[int] = []
    for key, text in zip(metrics.keys, metrics.labels, strict=True):
        most = _share(len(results.runs), len(metrics.keys), is_first=not columns)
        curves = {run.id: results.curve(run.id, key) for run in results.runs}
        longest = max((len(values) for _, values in curves.values()), default=0)
        every = 1 if longest <= most else -(-longest // (most - 1))
        thinned += [most] if every > 1 else []
        wide = _needs_float64(values for _, values in curves.values())
        column: dict[str, Any] = {"label": text, "wide": wide, "curve": [], "last": [], "diverged": []}
        for run in results.runs:
            at, values = _thinned(curves[run.id], every)
            number = steps.setdefault(at.tobytes(), len(steps))
            if number == len(arrays):
                arrays.append([int(step) for step in np.diff(at, prepend=0)])
            column["curve"].append([number, _packed(values, wide)] if len(values) else 0)
            diverged = results.diverged(run.id, key)
            column["diverged"].append(diverged)
            is_known = len(values) > 0 and diverged is None
            column["last"].append(float(f"{values[-1]:.6g}") if is_known else None)
        columns.append(column)
    return arrays, columns, min(thinned, default=0)


def _share(runs: int, metrics: int, *, is_first: bool) -> int:
    """Return how many points a curve may have, so that all curves together have MOST_POINTS at most."""
    first = MOST_POINTS * FIRST if metrics > 1 else MOST_POINTS
    share = first if is_first else (MOST_POINTS - first) / max(1, metrics - 1)
    return max(2, min(MOST_OF_A_CURVE, int(share / max(1, runs))))


def _thinned(curve: Curve, every: int) -> Curve:
    """Return each `every`-th point and the last one, so that runs with one schedule keep the same steps."""
    steps, values = curve
    if every <= 1 or len(steps) <= 2:
        return steps, values
    kept = np.arange(0, len(steps), every)
    if kept[-1] != len(steps) - 1:
        kept = np.append(kept, len(steps) - 1)
    return steps[kept], values[kept]


def _needs_float64(curves: Iterable[NDArray[np.float64]]) -> bool:
    """Return True if float32 would lose what is seen: huge values, or small changes of large ones."""
    finite = [values[np.isfinite(values)] for values in curves]
    whole = np.concatenate(finite) if finite else np.array([])
    if not len(whole):
        return False
    largest, smallest = float(whole.max()), float(whole.min())
    size = max(abs(largest), abs(smallest))
    return size > LARGEST_FLOAT32 or 0 < (largest / 2 - smallest / 2) < 1e-4 * size


def _packed(values: NDArray[np.float64], wide: bool) -> str:
    """Return values as base64 of little-endian floats."""
    return base64.b64encode(values.astype("<f8" if wide else "<f4").tobytes()).decode("ascii")
