"""Write the text of an experiment file whose matrix has exactly the recorded runs."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

from plat.app.recorded.selection import Recorded, Selection
from plat.characters import one_line
from plat.spec.composition.pieces import OF_FILES
from plat.spec.expansion.matrix import label_key

TAKEN = ("trainer", "seed", "recorded", "args", *OF_FILES)  # keys that mean something else in an experiment file
MOST_ALIKE = 20  # values that the comment at the top lists
LONGEST = 60  # characters of a value there


def experiment_text(title: str, folder: str, selection: Selection) -> str:
    """Return the text of the file. A grid with a few holes excludes these cells; other runs are listed one by one."""
    runs = selection.runs
    axes = {axis: _distinct([each.values[axis] for each in runs]) for axis in selection.axes}
    columns: dict[str, list[Any]] = {**{axis_key(axis): axes[axis] for axis in axes}, "seed": _seeds(runs)}
    missing = math.prod(map(len, columns.values())) - len(runs)
    lines = [_comment(selection), f"title: {_scalar(title)}", "base:", "  trainer: recorded"]
    lines += [f"  recorded.folder: {_scalar(folder)}", "matrix:"]
    if missing > len(runs):
        columns = {axis_key(axis): [each.values[axis] for each in runs] for axis in axes}
        columns["seed"] = [each.seed for each in runs]
    lines += [f"  {_key(name)}: {_list(values)}" for name, values in columns.items()]
    if missing > len(runs):
        lines.append(f"zip: [{_list(list(columns))}]")
    elif missing:
        lines += ["exclude:", *_holes(columns, runs)]
    return "\n".join(filter(None, lines)) + "\n"


def axis_key(name: str) -> str:
    """Return the key of a value in an experiment file."""
    return f"args.{name}" if name.partition(".")[0] in TAKEN else name


def _holes(columns: dict[str, list[Any]], runs: Sequence[Recorded]) -> list[str]:
    """Return the rows that exclude every cell without a run; the last axis is the seed."""
    there = {tuple(map(label_key, [*each.values.values(), each.seed])) for each in runs}
    *names, seed = columns
    lines = []
    for cell in itertools.product(*(columns[name] for name in names)):
        labels = tuple(map(label_key, cell))
        seeds = [number for number in columns[seed] if (*labels, label_key(number)) not in there]
        if seeds:
            row = [f"{_key(name)}: {_scalar(value)}" for name, value in zip(names, cell, strict=True)]
            row += [f"seed: {_list(seeds)}"] if len(seeds) < len(columns[seed]) or not row else []
            lines.append(f"  - {{{', '.join(row)}}}")
    return lines


def _comment(selection: Selection) -> str:
    alike = [f"{name}={value}"[:LONGEST] for name, value in selection.alike.items()]
    shown = ", ".join(alike[:MOST_ALIKE]) + (", ..." if len(alike) > MOST_ALIKE else "")
    return f"# The same in all runs: {one_line(shown)}" if alike else ""


def _seeds(runs: Sequence[Recorded]) -> list[int]:
    return sorted({each.seed for each in runs})


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values: numbers in their order, then texts in order of appearance."""
    found = list({label_key(value): value for value in values}.values())
    numbers = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    return sorted(numbers) + [value for value in found if value not in numbers or isinstance(value, bool)]


def _key(name: str) -> str:
    return name if name.replace("_", "").replace(".", "").isalnum() and name[0].isalpha() else _scalar(name)


def _list(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(_scalar, values))}]"


def _scalar(value: Any) -> str:
    """Return a value as YAML reads it: JSON, and a text without quotes where it is only a word."""
    if isinstance(value, str) and value.isascii() and value.isidentifier() and value.lower() not in WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


WORDS = ("true", "false", "null", "nan", "inf", "yes", "no", "on", "off", "y", "n")
