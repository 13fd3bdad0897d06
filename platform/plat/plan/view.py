"""A plan as text: the matrix of each experiment, and what the runs that are left cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from plat.plan.kinds import Kind
from plat.spec.experiment import Experiment
from plat.store.run_directory.state import STATES
from plat.units import duration

SYMBOLS = {
    "done": "●",
    "running": "▶",
    "queued": "…",
    "unknown": "?",
    "failed": "✗",
    "interrupted": "◐",
    "missing": "·",
}
PER_CELL = 6  # runs drawn one by one in a cell of the matrix


def matrix_lines(experiment: Experiment, states: Mapping[str, str]) -> list[str]:
    """One experiment as a table: an axis down, another across, the rest in each cell."""
    axes = experiment.axes
    wide = [name for name in axes if name != "seed" and len(axes[name]) > 1]
    across = "task" if "task" in wide else next(iter(wide[1:]), None)
    down = next((name for name in wide if name != across), None)
    if down is None:
        down, across = across, None
    cells: dict[tuple[str, str], list[str]] = defaultdict(list)
    for labels, run_id in experiment.cells or [(run.axes, run.id) for run in experiment.runs]:
        spot = (str(labels.get(down, "") if down else ""), str(labels.get(across, "") if across else ""))
        cells[spot].append(states[run_id])
    rows = _in_file_order(axes, down, [row for row, _ in cells])
    columns = _in_file_order(axes, across, [column for _, column in cells])
    corner = f"{down} \\ {across}" if down and across else down or ""
    table = [[corner, *columns]]
    table += [[row, *(_cell(cells.get((row, column), [])) for column in columns)] for row in rows]
    widths = [max(len(line[index]) for line in table) for index in range(len(columns) + 1)]
    bound = _bound_axes(experiment, {name for name in (across, down) if name})
    inside = [f"{name}: {_listed(axes[name])}" for name in axes if name not in (across, down) and name not in bound]
    lines = [f"{experiment.title}  [{experiment.name} · {experiment.scale}]"]
    if inside:
        lines.append("in each cell " + ", ".join(inside))
    if bound:
        lines.append("given by the cell: " + ", ".join(bound))
    for line in table if any(table[0]) else table[1:]:  # a matrix of one cell has no heading
        lines.append("  " + "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    return [*lines, ""]


def artifact_lines(experiments: Sequence[Experiment], states: Mapping[str, str]) -> list[str]:
    """A table with a line for each experiment: what it redraws, its file, and how many of its runs are done, are left
    and are those of another experiment, too."""
    asked = Counter(run.id for experiment in experiments for run in experiment.runs)
    table = [["artifact", "file", "runs", "done", "to do", "shared"]]
    for experiment in experiments:
        done = sum(states[run.id] == "done" for run in experiment.runs)
        shared = sum(asked[run.id] > 1 for run in experiment.runs)
        numbers = (len(experiment.runs), done, len(experiment.runs) - done, shared)
        table.append([experiment.source or "", experiment.name, *map(str, numbers)])
    widths = [max(len(line[index]) for line in table) for index in range(len(table[0]))]
    return [
        "  ".join(text.ljust(width) if i < 2 else text.rjust(width) for i, (text, width) in enumerate(cells)).rstrip()
        for cells in (list(zip(line, widths, strict=True)) for line in table)
    ]


def _in_file_order(axes: Mapping[str, Sequence[Any]], axis: str | None, labels: Sequence[str]) -> list[str]:
    """The labels of a row or column, as the file lists its axis; labels that only `include` names come last."""
    listed = [str(value) for value in axes[axis]] if axis else []
    return list(dict.fromkeys([*(label for label in listed if label in labels), *labels]))


def _bound_axes(experiment: Experiment, drawn: set[str]) -> list[str]:
    """Axes with several values of which each cell of the drawn table has only one, because of a zip for example."""
    labels_of_cells = [labels for labels, _ in experiment.cells] or [run.axes for run in experiment.runs]
    undrawn = [name for name in experiment.axes if name not in drawn and len(experiment.axes[name]) > 1]
    return [name for name in undrawn if _is_bound(name, sorted(drawn), labels_of_cells)]


def _is_bound(name: str, drawn: Sequence[str], labels_of_cells: Sequence[Mapping[str, Any]]) -> bool:
    """Whether this axis has one value only in each cell of the drawn table."""
    first: dict[tuple[str, ...], str] = {}
    for labels in labels_of_cells:
        value = str(labels.get(name, ""))
        if first.setdefault(tuple([str(labels.get(axis, "")) for axis in drawn]), value) != value:
            return False
    return True


def _cell(states: list[str]) -> str:
    if len(states) <= PER_CELL:
        return "".join(SYMBOLS[state] for state in states)
    counts = Counter(states)
    parts = [f"{SYMBOLS[state]}{counts[state]}" for state in STATES if counts[state] and state != "done"]
    return " ".join([f"{counts['done']}/{len(states)}", *(part for part in parts if not part.startswith("·"))])


def _listed(values: Sequence[Any]) -> str:
    texts = [str(value) for value in values]
    return " ".join(texts) if len(texts) <= 8 else f"{len(texts)} values"


def kind_lines(kinds: Sequence[Kind]) -> list[str]:
    """What a run of each kind takes, as a table; [] when none is left."""
    if not kinds:
        return []
    header = ("trainer", "model", "task", "runs", "p50", "p90")
    times = [["?" if value is None else duration(value) for value in (kind.p50, kind.p90)] for kind in kinds]
    cells = [
        [kind.trainer, kind.model, kind.task, str(kind.runs), *both] for kind, both in zip(kinds, times, strict=True)
    ]
    table = [list(header), *cells]
    widths = [max(len(row[index]) for row in table) for index in range(len(header))]
    rows = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table)
    return ["time of a run that is left:", *(f"  {row}" for row in rows)]
