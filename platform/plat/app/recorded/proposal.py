"""Propose a table, curves and a claim for imported runs: lines of their experiment file that a user edits."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from plat.app.recorded.file_text import axis_key, distinct, following, scalar
from plat.app.recorded.selection import Selection
from plat.spec.expansion.matrix import label_key
from plat.words.metric_names import SUCCESS

MOST_METRICS = 3
ENOUGH_SEEDS = 5  # below, a claim compares tasks, if there are as many as ENOUGH_TASKS
ENOUGH_TASKS = 8
# Parts of names of outcomes, and of evaluations, which come before other metrics.
OUTCOME = re.compile(
    r"success|acc|reward|return|score|loss|error|f1|bpb|perplexity|auc|bleu|rouge|map\b", re.IGNORECASE
)
METHOD = re.compile(r"algorithm|method|model|variant|arm\b|optimi[sz]er|filter", re.IGNORECASE)
EVALUATED = re.compile(r"val|test|eval|held", re.IGNORECASE)
HEAD = "To ask something of these runs, edit the lines below and remove the `# ` before each."


def proposals(selection: Selection) -> list[str]:
    """Return the keys `report` and `claims` as YAML, then `report` alone; [] if no axis varies, or without numbers.

    The axis with the fewest values is compared, one that is named like a method first, and none that follows from
    another. There is a claim only for two values.
    """
    rows_of = [{axis_key(axis): each.values[axis] for axis in selection.axes} for each in selection.runs]
    axes = {name: distinct([row[name] for row in rows_of]) for name in map(axis_key, selection.axes)}
    above = following(axes, rows_of)
    varying = [name for name, values in axes.items() if len(values) > 1 and name not in above]
    metrics = _metrics(selection)
    if not varying or not metrics:
        return []
    axis = min(reversed(varying), key=lambda name: (not METHOD.search(name), len(axes[name])))
    others = [name for name in axes if name not in (axis, *above)]
    rows = f"[{', '.join(map(scalar, others))}]"
    names = ", ".join(map(scalar, metrics))
    measures = ", ".join(f"{scalar(name)}: {_measure(name)}" for name in metrics)
    baseline = scalar(axes[axis][0])
    table = f"measures_table, rows: {rows}, conditions: {scalar(axis)}, baseline: {baseline}, measures: {{{measures}}}"
    if len({frozenset(seeds) for seeds in _seeds(selection)}) > 1:  # without pairs, there are means alone
        table = f"metric_table, rows: {rows}, columns: [{scalar(axis)}], metrics: [{names}], percent: false"
    panels = f"rows: [{', '.join(map(scalar, others[1:]))}], columns: [{', '.join(map(scalar, others[:1]))}], "
    lines = [
        "report:",
        f"  - {{builder: {table}}}",
        f"  - {{builder: learning_curves, {panels}pair: {scalar(axis)}, baseline: {baseline}, metrics: [{names}]}}",
    ]
    claim = ["claims:", *_claim(selection, axis, axes[axis], others, metrics[0])] if len(axes[axis]) == 2 else []
    return ["\n".join([*lines, *more, ""]) for more in ([claim, []] if claim else [[]])]


def commented(text: str) -> str:
    """Return the lines as comments, below a line that says how to use them."""
    return "".join(f"# {line}\n" for line in [HEAD, *text.splitlines()])


def _metrics(selection: Selection) -> list[str]:
    """Return the metrics that most runs have, those that are named like outcomes first."""
    counts = Counter(name for each in selection.runs for name in {n for row in each.run.history.values() for n in row})
    return sorted(counts, key=lambda name: (_kind(name), -counts[name]))[:MOST_METRICS]


def _kind(name: str) -> int:
    return 0 if OUTCOME.search(name) and EVALUATED.search(name) else 1 if OUTCOME.search(name) else 2


def _claim(selection: Selection, axis: str, values: list[Any], others: list[str], metric: str) -> list[str]:
    first, second = values
    seeds = _seeds(selection)
    fewest = min(map(len, seeds))
    shape = [f"    rows: [{', '.join(map(scalar, others))}]", "    columns: []"]
    if fewest < ENOUGH_SEEDS and len(seeds) >= 2 * ENOUGH_TASKS:
        shape = ["    rows: []", f"    columns: [{', '.join(map(scalar, others))}]", "    units: tasks"]
    elif len({frozenset(of_one) for of_one in seeds}) > 1:
        shape.append("    units: runs  # their seeds differ, so they make no pairs")
    return [
        f"  - id: {re.sub(r'[^a-z0-9]+', '-', f'{axis} {second}'.lower()).strip('-')}-ends-higher",
        f"    says: {scalar(f'Runs with {axis} = {second} end with more {metric} than runs with {axis} = {first}.')}",
        "    check: mean_delta_positive",
        *shape,
        f"    pair: {scalar(axis)}",
        f"    baseline: {scalar(first)}  # exchange the two where lower is better",
        f"    treatment: {scalar(second)}",
        f"    measure: {_measure(metric)}",
        f"    smallest: {_tenth(selection, metric):g}  # the smallest change that matters; here a tenth of its range",
    ]


def _seeds(selection: Selection) -> list[set[int]]:
    """Return the seeds of each combination of values."""
    seeds: dict[str, set[int]] = {}
    for each in selection.runs:
        seeds.setdefault(repr([label_key(value) for value in each.values.values()]), set()).add(each.seed)
    return list(seeds.values())


def _measure(metric: str) -> str:
    return f"{{metric: {scalar(metric)}{', percent: false' if metric == SUCCESS else ''}}}"


def _tenth(selection: Selection, metric: str) -> float:
    """Return a tenth of the range of a metric's last numbers, with one digit; 1 where they do not differ."""
    ends = []
    for each in selection.runs:
        values = [row[metric] for _, row in sorted(each.run.history.items()) if metric in row]
        ends += [value for value in values[-1:] if math.isfinite(value)]
    span = (max(ends) - min(ends)) / 10 if ends else 0.0
    return float(f"{span:.1g}") if 0 < span < math.inf else 1.0
