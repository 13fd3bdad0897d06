"""Choose the axes among the values of runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest

# The last part of keys that name a run and do not describe it.
NAMES: tuple[str, ...] = (
    "name",
    "run_name",
    "run_id",
    "id",
    "exp_name",
    "experiment_name",
    "output_dir",
    "logging_dir",
    "log_dir",
)
NAMES += ("timestamp", "date", "time", "hostname", "pid", "job_id")
OF_ONE_RUN = re.compile(r"/|\\|\d{4}-?\d{2}-?\d{2}|[0-9a-f]{8}")  # a path, a date, an id
SINCE_1970 = 1e9  # a number above it that differs in each run is a time


def axes_of(
    values: Sequence[dict[str, Any]], asked: Sequence[str], seed: str
) -> tuple[tuple[str, ...], dict[str, Any], list[str]]:
    """Return the axes, the values that all runs share, and the keys that vary and are left out.

    asked  the axes that the user chose; empty: all keys that vary, without those that only name a run
    seed   the key of the seed, "" without one

    Raises SpecError if no run has an axis that was asked for.
    """
    keys = [key for key in dict.fromkeys(key for row in values for key in row) if key != seed]
    columns = {key: [row.get(key) for row in values] for key in keys}
    for key in asked:
        if key not in columns and key != seed:
            raise SpecError(f"no run has the value {key!r}", where="--axes", fix=suggest(key, keys, "values"))
    varying = [key for key in keys if len(_different(columns[key])) > 1]
    alike = {key: columns[key][0] for key in keys if key not in varying}
    if asked:
        return tuple(dict.fromkeys(key for key in asked if key != seed)), alike, []
    unique = {key for key in varying if len(_different(columns[key])) == len(values) > 1}
    others = [key for key in varying if key not in unique]
    seeds = [row.get(seed) for row in values]
    places = [columns[key] for key in others] + ([seeds] if len(_different(seeds)) < len(values) else [])
    tells_apart = bool(others) and len(set(map(repr, zip(*places, strict=True)))) == len(values)
    left_out = [key for key in varying if key in unique and (tells_apart or _names_a_run(key, columns[key]))]
    return tuple(key for key in varying if key not in left_out), alike, left_out


def _different(column: Collection[Any]) -> set[tuple[bool, Any]]:
    """Return the distinct values: 1 and 1.0 are one value, 1 and true are two."""
    return {(isinstance(value, bool), value) for value in column}


def _names_a_run(key: str, column: Sequence[Any]) -> bool:
    if key.replace("/", ".").rpartition(".")[2].lower() in NAMES:
        return True
    texts = [value for value in column if isinstance(value, str)]
    numbers = [value for value in column if isinstance(value, int | float)]
    return all(map(OF_ONE_RUN.search, texts)) and all(number > SINCE_1970 for number in numbers)
