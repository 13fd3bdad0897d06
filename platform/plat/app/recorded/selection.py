"""Choose what is recorded of foreign runs: which of them, their metrics, their axes, and the seed of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from plat.app.recorded.foreign_run import ForeignRun, with_spellings
from plat.app.recorded.metric_choice import NO_SEED, Choice, with_metrics
from plat.errors import SpecError
from plat.spec.composition.leaf import show
from plat.suggest import suggest
from plat.units import counted


@dataclass(frozen=True)
class Recorded:
    """One run to record: the values of its axes, its seed, and the run with the chosen metrics."""

    values: dict[str, Any]
    seed: int
    run: ForeignRun


@dataclass(frozen=True)
class Selection:
    """The runs to record.

    axes   the keys of the values that vary
    alike  the values that are the same in all runs
    notes  sentences about what was left out
    """

    axes: tuple[str, ...]
    runs: list[Recorded]
    alike: dict[str, Any]
    notes: list[str]


def select(runs: Sequence[ForeignRun], choice: Choice) -> Selection:
    """Return what is to be recorded.

    Raises SpecError if no run is left, for an unknown axis, seed or metric, and for two runs with the same values and
    the same seed.
    """
    notes: list[str] = []
    kept = _kept(runs, choice, notes)
    seed_key = _seed_key(choice, {key for run in kept for key in run.values})
    if about_ends := _ends(kept):
        notes.append(about_ends)
    kept, spelled = with_spellings(kept, seed_key)
    for key, (one, other) in spelled.items():
        notes.append(f"{key}: {one} and {other} are two values; if they are one, write them alike")
    axes, alike, left_out = axes_of([run.values for run in kept], choice.axes, seed_key)
    if left_out:
        notes.append(f"no axis, because it only names the runs: {', '.join(left_out)} (--axes A,B chooses others)")
    if replaced := sum(run.replaced for run in kept):
        notes.append(f"{counted(replaced, 'value')} of a metric had a later one at the same step, which counts")
    values = [{axis: run.values.get(axis) for axis in axes} for run in kept]
    is_numbered = not seed_key or choice.seed == NO_SEED
    if not seed_key and choice.seed != NO_SEED:
        _check_folders(kept, values)
    seeds = _numbers(values) if is_numbered else [_seed(run, seed_key) for run in kept]
    found = [Recorded(*each) for each in zip(values, seeds, kept, strict=True)]
    _check_distinct(found)
    if about_seeds := _unlike_seeds(found, is_numbered):
        notes.append(about_seeds)
    if choice.seed != NO_SEED and (about_replicates := _only_replicates(found, not seed_key)):
        notes.append(about_replicates)
    return Selection(axes, found, alike, notes)


def _kept(runs: Sequence[ForeignRun], choice: Choice, notes: list[str]) -> list[ForeignRun]:
    """Return the runs that have finished, or all with `unfinished`, which have one of the chosen metrics."""
    chosen = [run for run in runs if run.finished or choice.unfinished]
    if not chosen:
        raise SpecError("no run has finished", where=runs[0].place, fix="--unfinished imports them as they are")
    if left_out := len(runs) - len(chosen):
        notes.append(
            f"left out, because they did not finish: {counted(left_out, 'run')} (--unfinished imports such runs)"
        )
    found = with_metrics(chosen, choice)
    if empty := [run.name for run in found if not run.history]:
        notes.append(f"left out, because they have no metric: {', '.join(empty[:5])}" + ", ..." * (len(empty) > 5))
    return [run for run in found if run.history]


def _ends(runs: Sequence[ForeignRun]) -> str:
    """Return a sentence if runs end at different steps, else ""."""
    last = sorted(max(run.history) for run in runs)
    if last[0] == last[-1]:
        return ""
    return f"runs end at different steps, from {last[0]} to {last[-1]}: a measure at the end compares them as they are"


def _seed_key(choice: Choice, keys: Collection[str]) -> str:
    key = choice.seed_key(keys)
    if key and key not in keys:
        raise SpecError(f"no run has the value {key!r}", where="--seed", fix=suggest(key, sorted(keys), "values"))
    return key


def _seed(run: ForeignRun, key: str) -> int:
    value = run.values.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0 or value != int(value):
        what = f"the seed {key} of the run {run.name} is {show(value)}, which is no whole number of at least 0"
        raise SpecError(what, where=run.place, fix="name another value: --seed KEY; or number the runs: --seed none")
    return int(value)


def _numbers(values: Sequence[dict[str, Any]]) -> list[int]:
    """Return a number for each run: 0, 1, ... among the runs with the same values."""
    seen: Counter[str] = Counter()
    numbers = []
    for row in values:
        numbers.append(seen[_alike(row)])
        seen[_alike(row)] += 1
    return numbers


def _check_folders(runs: Sequence[ForeignRun], values: Sequence[dict[str, Any]]) -> None:
    """Raise SpecError for files with equal values in folders of several files: the folders may be settings."""
    groups: dict[str, dict[PurePath, list[ForeignRun]]] = {}
    for run, row in zip(runs, values, strict=True):
        if run.place.endswith(".csv"):
            groups.setdefault(_alike(row), {}).setdefault(PurePath(run.place).parent, []).append(run)
    for folders in groups.values():
        if len(folders) > 1 and any(len(found) > 1 for found in folders.values()):
            first, second = ((folder, found[0]) for folder, found in list(folders.items())[:2])
            what = f"{first[1].place} and {second[1].place} have the same values, and are in different folders"
            fix = f"if the folders are settings, say so in their names ({first[0].name} -> arm={first[0].name}); "
            raise SpecError(what, where=second[1].place, fix=fix + "if all are runs of one setting: --seed none")


def _check_distinct(runs: Sequence[Recorded]) -> None:
    """Raise SpecError for two runs with the same values and the same seed."""
    seen: dict[tuple[str, int], ForeignRun] = {}
    for each in runs:
        other = seen.setdefault((_alike(each.values), each.seed), each.run)
        if other is not each.run:
            shown = ", ".join(f"{name}={value}" for name, value in {**each.values, "seed": each.seed}.items())
            what = f"two runs have the same values and seed ({shown}): {other.name} and {each.run.name}"
            fix = "name the values that tell them apart: --axes A,B; or their seed: --seed KEY (none numbers the runs)"
            raise SpecError(what, where=f"{other.place} and {each.run.place}", fix=fix)


def _unlike_seeds(runs: Sequence[Recorded], is_numbered: bool) -> str:
    """Return a sentence if the settings do not all have the same seeds, else ""."""
    groups: dict[str, set[int]] = {}
    for each in runs:
        groups.setdefault(_alike(each.values), set()).add(each.seed)
    shared = sorted(set.intersection(*groups.values()))
    if all(len(seeds) == len(shared) for seeds in groups.values()):
        return ""
    what = "the settings have different seeds, and effects are paired by seed"
    if shared:
        return f"{what}: 'matrix.seed=[{','.join(map(str, shared))}]' leaves the runs that all settings have"
    return what + ("" if is_numbered else ": --seed none numbers the runs instead")


IN_A_NAME = re.compile(r"(?<![A-Za-z0-9.])([A-Za-z]+)(\d+(?:\.\d+)?(?:e[-+]?\d+)?)(?![A-Za-z0-9])")  # lr0.1


def _only_replicates(runs: Sequence[Recorded], is_numbered: bool) -> str:
    """Return a sentence if runs differ in nothing but a seed, and this was counted or there is no axis; else ""."""
    groups: dict[str, list[Recorded]] = {}
    for each in runs:
        groups.setdefault(_alike(each.values), []).append(each)
    groups = {key: group for key, group in groups.items() if len(group) > 1}
    if not groups or (runs[0].values and not is_numbered):
        return ""
    parts = [set(IN_A_NAME.findall(each.run.name)) for group in groups.values() for each in group]
    differing = sorted(part for part in set.union(*parts) - set.intersection(*parts) if part[0] != "seed")
    named = f" Their names differ in {' and '.join(map(''.join, differing[:2]))}." if len(differing) > 1 else ""
    but = "" if is_numbered else " but the seed"
    what = f"nothing{but} tells {sum(map(len, groups.values()))} runs apart, which count as seeds: are they replicates?"
    return f"{what}{named} If not, name their settings: --axes A,B, folders such as lr=0.1, or W&B's table of runs"


def _alike(values: dict[str, Any]) -> str:
    """Return a text that is the same for equal values: 1.0 is 1, and true is not 1."""
    return repr([float(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in values.values()])


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
