"""A plan as text: the matrix of each experiment, and a line for each of several."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from plat.characters import one_line
from plat.plugins.loading import file_of
from plat.plugins.plugin_code import FILES
from plat.spec.expansion.experiment import Experiment
from plat.spec.expansion.run import Run
from plat.spec.identity.run_identity import named_code, run_code
from plat.store.run_directory.state import STATES
from plat.words.states import RunStatus

SYMBOLS: dict[str, str] = {
    RunStatus.DONE: "●",
    RunStatus.RUNNING: "▶",
    RunStatus.QUEUED: "…",
    RunStatus.UNKNOWN: "?",
    RunStatus.FAILED: "✗",
    RunStatus.INTERRUPTED: "◐",
    RunStatus.MISSING: "·",
}
MOST_FILES = 5  # named of those whose content is a part of a run's identity
WIDEST = 160  # characters of a matrix that is not turned
PER_CELL = 6  # runs drawn one by one in a cell of the matrix


def matrix_lines(experiment: Experiment, states: Mapping[str, str], most_files: int | None) -> list[str]:
    """Return one experiment as a table: one axis down, one across, the other axes inside each cell.

    most_files  files of a run's identity that are named; None: all
    """
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
    if len(columns) > len(rows) and max(map(len, aligned(table))) > WIDEST:
        table = [list(column) for column in zip(*table, strict=True)]
        table[0][0] = f"{across} \\ {down}" if down and across else table[0][0]
    bound = _bound_axes(experiment, {name for name in (across, down) if name})
    inside = [f"{name}: {_listed(axes[name])}" for name in axes if name not in (across, down) and name not in bound]
    names = " · ".join(filter(None, [experiment.name, experiment.scale]))
    lines = [f"{experiment.title}  [{names}]"]
    if inside:
        lines.append("in each cell " + ", ".join(inside))
    if bound:
        lines.append("given by the cell: " + ", ".join(bound))
    if files := files_of(experiment.runs):
        more = f" and {len(files) - most_files} more" if most_files is not None and len(files) > most_files else ""
        lines.append(f"code: {', '.join(files[:most_files])}{more}")
    return [*lines, *aligned(table if any(table[0]) else table[1:]), ""]  # a one-cell matrix has no heading


def files_of(runs: Sequence[Run]) -> list[str]:
    """Return the files whose code runs: of trainers named as `module:ATTRIBUTE`, then those that a config names.

    The latter are those of the first run, such as a script and the modules that it imports.
    """
    trainers = dict.fromkeys(run.trainer for run in runs if ":" in run.trainer)
    files = [file for trainer in trainers if (file := file_of(trainer)) is not None]
    first = runs[0]
    if FILES in named_code(first.identity):
        files += run_code(first.trainer, first.config, first.identity)[FILES].files
    return files


def artifact_lines(experiments: Sequence[Experiment], states: Mapping[str, str]) -> list[str]:
    """Return a table with a line per experiment: artifact, file, and counts of runs: all, done, left, shared."""
    asked = Counter(run.id for experiment in experiments for run in experiment.runs)
    table = [["artifact", "file", "runs", "done", "to do", "shared"]]
    for experiment in experiments:
        done = sum(states[run.id] == RunStatus.DONE for run in experiment.runs)
        shared = sum(asked[run.id] > 1 for run in experiment.runs)
        numbers = (len(experiment.runs), done, len(experiment.runs) - done, shared)
        table.append([experiment.source or "", experiment.name, *map(str, numbers)])
    return aligned(table, indent="", left=2)


def aligned(table: Sequence[Sequence[str]], indent: str = "  ", left: int | None = None) -> list[str]:
    """Return the rows of a table as lines. Columns from number `left` on are right-aligned; None: none of them is."""
    table = [[one_line(text) for text in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = [
            text.ljust(width) if left is None or index < left else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(indent + "  ".join(cells).rstrip())
    return lines


def _in_file_order(axes: Mapping[str, Sequence[Any]], axis: str | None, labels: Sequence[str]) -> list[str]:
    """Return the labels of a row or column in the order of the file; labels that only `include` names come last."""
    listed = [str(value) for value in axes[axis]] if axis else []
    return list(dict.fromkeys([*(label for label in listed if label in labels), *labels]))


def _bound_axes(experiment: Experiment, drawn: set[str]) -> list[str]:
    """Return axes with several values but only one in each cell of the drawn table, e.g. because of a zip."""
    labels_of_cells = [labels for labels, _ in experiment.cells] or [run.axes for run in experiment.runs]
    undrawn = [name for name in experiment.axes if name not in drawn and len(experiment.axes[name]) > 1]
    first: dict[tuple[str, ...], Mapping[str, Any]] = {}  # the labels of the first position in each cell
    for labels in labels_of_cells:
        earlier = first.setdefault(tuple([str(labels.get(axis, "")) for axis in sorted(drawn)]), labels)
        undrawn = [name for name in undrawn if str(labels.get(name, "")) == str(earlier.get(name, ""))]
    return undrawn


def _cell(states: list[str]) -> str:
    if len(states) <= PER_CELL:
        return "".join(SYMBOLS[state] for state in states)
    counts = Counter(states)
    parts = [f"{SYMBOLS[state]}{counts[state]}" for state in STATES if counts[state] and state != RunStatus.DONE]
    return " ".join([f"{counts[RunStatus.DONE]}/{len(states)}", *(part for part in parts if not part.startswith("·"))])


def _listed(values: Sequence[Any]) -> str:
    texts = [one_line(str(value)) for value in values]
    return " ".join(texts) if len(texts) <= 8 else f"{len(texts)} values"
