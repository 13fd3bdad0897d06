"""The experiment file of imported runs: its matrix, and the cells of it that have no run."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from plat.app.recorded.selection import Recorded, Selection
from plat.characters import one_line
from plat.spec.composition.pieces import OF_FILES
from plat.spec.expansion.matrix import label_key

TAKEN = ("trainer", "seed", "recorded", "args", *OF_FILES)  # keys that mean something else in an experiment file
MOST_ALIKE = 20  # values that the comment at the top lists
LONGEST = 60  # characters of a value there


def experiment_text(title: str, folder: str, selection: Selection) -> str:
    """Return the text of the file. A grid with a few holes excludes these cells; other runs are listed one by one.

    An axis that follows from another one, as the domain from the task, is zipped with it.
    """
    rows = [
        {**{axis_key(axis): each.values[axis] for axis in selection.axes}, "seed": each.seed} for each in selection.runs
    ]
    names = list(map(axis_key, selection.axes))
    axes = {name: distinct([row[name] for row in rows]) for name in names}
    above = following(axes, rows)
    free = [name for name in names if name not in above]
    columns: dict[str, list[Any]] = {**{name: axes[name] for name in free}, "seed": _seeds(selection.runs)}
    missing = math.prod(map(len, columns.values())) - len(rows)
    lines = [_comment(selection), f"title: {scalar(title)}", "base:", "  trainer: recorded"]
    lines += [f"  recorded.folder: {scalar(folder)}", "matrix:"]
    if missing > len(rows):
        listed = {name: [row[name] for row in rows] for name in [*names, "seed"]}
        zips = [list(listed)]
    else:
        followers = {name: list(of.values()) for name, (_, of) in above.items()}
        listed = {name: {**columns, **followers}[name] for name in [*names, "seed"]}
        zips = [[one, *(name for name in above if above[name][0] == one)] for one in free]
        zips = [each for each in zips if len(each) > 1]
    lines += [f"  {_key(name)}: {_list(values)}" for name, values in listed.items()]
    if zips:
        lines.append(f"zip: [{', '.join(map(_list, zips))}]")
    if 0 < missing <= len(rows):
        lines += ["exclude:", *_holes(columns, rows)]
    return "\n".join(filter(None, lines)) + "\n"


def following(
    axes: Mapping[str, Sequence[Any]], runs: Sequence[Mapping[str, Any]]
) -> dict[str, tuple[str, dict[Any, Any]]]:
    """Return axis -> the axis that it follows from, and the value for each of its values, in their order."""
    found: dict[str, tuple[str, dict[Any, Any]]] = {}
    for axis, values in axes.items():
        for other in sorted(axes, key=lambda name: len(axes[name])):
            if other == axis or other in found or len(axes[other]) <= len(values) or len(values) < 2:
                continue
            pairs = {(label_key(each[other]), label_key(each[axis])) for each in runs}
            if len(pairs) == len(axes[other]):
                of = {label_key(each[other]): each[axis] for each in runs}
                found[axis] = other, {label_key(value): of[label_key(value)] for value in axes[other]}
                break
    return found


def axis_key(name: str) -> str:
    """Return the key of a value in an experiment file."""
    return f"args.{name}" if name.partition(".")[0] in TAKEN else name


def _holes(columns: dict[str, list[Any]], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the rows that exclude every cell without a run. `columns`: axis -> its values; the last one is the seed.

    Cells that differ in the longest axis alone are one row.
    """
    *names, seed = columns
    there = {tuple(label_key(each[name]) for name in columns) for each in runs}
    longest = max(names, key=lambda name: len(columns[name]), default="")
    rows: dict[str, tuple[dict[str, Any], list[Any], list[int]]] = {}
    for cell in itertools.product(*(columns[name] for name in names)):
        labels = tuple(map(label_key, cell))
        seeds = [number for number in columns[seed] if (*labels, label_key(number)) not in there]
        if seeds:
            others = dict(zip(names, cell, strict=True))
            value = others.pop(longest, None)
            rows.setdefault(repr((list(others.values()), seeds)), (others, [], seeds))[1].append(value)
    lines = []
    for others, values, seeds in rows.values():
        cell_of = {**others, **({longest: values} if longest and len(values) < len(columns[longest]) else {})}
        if len(seeds) < len(columns[seed]) or not cell_of:
            cell_of["seed"] = seeds
        row = [f"{_key(name)}: {_shown(name, cell_of[name])}" for name in columns if name in cell_of]
        lines.append(f"  - {{{', '.join(row)}}}")
    return lines


def _shown(name: str, value: Any) -> str:
    if isinstance(value, list):
        return scalar(value[0]) if len(value) == 1 and name != "seed" else _list(value)
    return scalar(value)


def _comment(selection: Selection) -> str:
    alike = [f"{name}={value}"[:LONGEST] for name, value in selection.alike.items()]
    shown = ", ".join(alike[:MOST_ALIKE]) + (", ..." if len(alike) > MOST_ALIKE else "")
    return f"# The same in all runs: {one_line(shown)}" if alike else ""


def _seeds(runs: Sequence[Recorded]) -> list[int]:
    return sorted({each.seed for each in runs})


def distinct(values: Sequence[Any]) -> list[Any]:
    """Return the distinct values: numbers in their order, then texts in order of appearance."""
    found = list({label_key(value): value for value in values}.values())
    numbers = [value for value in found if isinstance(value, int | float) and not isinstance(value, bool)]
    return sorted(numbers) + [value for value in found if value not in numbers or isinstance(value, bool)]


def seeds_in_words(selection: Selection) -> str:
    """Return the seeds of all runs, or how many of them there are in a setting: `1, 2, 3` or `5 to 10 in a setting`."""
    groups: dict[tuple[Any, ...], set[int]] = {}
    for each in selection.runs:
        groups.setdefault(tuple(map(label_key, each.values.values())), set()).add(each.seed)
    if len({frozenset(seeds) for seeds in groups.values()}) == 1:
        return ", ".join(map(str, _seeds(selection.runs)))
    counts = sorted({len(seeds) for seeds in groups.values()})
    every = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}, of different numbers,"
    return f"{every} in a setting"


def _key(name: str) -> str:
    return name if name.replace("_", "").replace(".", "").isalnum() and name[0].isalpha() else scalar(name)


def _list(values: Sequence[Any]) -> str:
    return f"[{', '.join(map(scalar, values))}]"


def scalar(value: Any) -> str:
    """Return a value as YAML reads it: JSON, and a text without quotes where it is only a word."""
    if isinstance(value, str) and value.isascii() and value.isidentifier() and value.lower() not in WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)


WORDS = ("true", "false", "null", "nan", "inf", "yes", "no", "on", "off", "y", "n")
