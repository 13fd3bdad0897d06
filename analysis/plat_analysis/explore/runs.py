"""The runs of an experiment as columns: axes as value numbers, how each run ended, and where its files lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from plat_analysis.data.labels import axis_label, label
from plat_analysis.data.results import Results, RunView, spell

REPLICATES = ("seed", "model.base.seed")  # what a band is over
OUTCOME = "outcome"  # the column of how runs ended; readers filter and group by it as by an axis


@dataclass(frozen=True)
class Places:
    """Hold where a reader finds more about a run.

    folders  run id -> the folder of the run, relative to the page; runs without a folder here are left out
    server   the address of the MLflow server, e.g. `http://host:5000`; "" for a store that is no server
    """

    folders: Mapping[str, str] = field(default_factory=dict)
    server: str = ""


@dataclass(frozen=True)
class Axis:
    """Hold one axis and the value of each run.

    name          as in the experiment file
    label         as printed
    values        the different values as text, in the order in which they are shown
    codes         of each run, the position of its value in `values`
    is_number     True if all values are numbers
    is_replicate  True for seeds and builds
    """

    name: str
    label: str
    values: list[str]
    codes: list[int]
    is_number: bool = False
    is_replicate: bool = False

    @property
    def varies(self) -> bool:
        return len(self.values) > 1


def axes_of(results: Results) -> list[Axis]:
    """Return the axes of the experiment, in its order; the seed of the runs counts as one wherever it varies."""
    runs = results.runs
    names = list(results.experiment.axes) or sorted({name for run in runs for name in run.axes})
    axes = [_axis(name, [run.axes.get(name) for run in runs]) for name in names]
    if "seed" not in names:
        seeds = _axis("seed", [run.seed for run in runs])
        axes += [seeds] if seeds.varies else []
    return _apart(axes)


def outcome_axis(results: Results) -> Axis:
    """Return how each run ended, or why it has no result, in the form of an axis."""
    ended = [run.outcome or run.missing for run in results.runs]
    values = sorted(set(ended))
    return Axis(OUTCOME, OUTCOME, values, [values.index(one) for one in ended])


def _axis(name: str, values: Sequence[Any]) -> Axis:
    """Return an axis: numbers by size, other values in the order of the runs, runs without a value last."""
    texts = ["" if value is None else spell(value) for value in values]
    numbers = {text: _number(value) for text, value in zip(texts, values, strict=True) if value is not None}
    is_number = bool(numbers) and None not in numbers.values()
    shown = list(numbers)
    if is_number:
        shown.sort(key=lambda text: numbers[text] or 0.0)
    if "" in texts and "" not in shown:
        shown.append("")
    at = {text: position for position, text in enumerate(shown)}
    printed = [label(text) if text else "not set" for text in shown]
    return Axis(name, axis_label(name), printed, [at[text] for text in texts], is_number, name in REPLICATES)


def _number(value: Any) -> float | None:
    """Return a finite number as a float; None for anything else, also for True and False."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if number - number == 0 else None


def _apart(axes: list[Axis]) -> list[Axis]:
    """Give axes whose labels are equal their full names."""
    labels = [axis.label for axis in axes]
    return [
        Axis(a.name, spell(a.name), a.values, a.codes, a.is_number, a.is_replicate) if labels.count(a.label) > 1 else a
        for a in axes
    ]


def mlflow_page(run: RunView, server: str) -> str:
    """Return the address of a run's page on an MLflow server; "" without a server or a stored run."""
    known = run.facts.get("mlflow_id")
    return f"{server.rstrip('/')}/#/runs/{known}" if server and isinstance(known, str) and known else ""
