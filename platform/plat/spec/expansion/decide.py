"""Settings of `decide`: add seeds at planned looks until every claim is decided, or the most seeds are used.

    decide: {most: 27, looks: [8, 12, 18, 27], margin: 5, error: .025}

`decide: true` takes the defaults. On the command line `decide=true`, `decide.most=18` and so on replace the file's.
A look counts pairs: one for each build and seed. The matrix then has the seeds of the last look: those of the file,
and after them the whole numbers that follow the largest. `plat_analysis.statistics.sequential` has the statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from plat.errors import SpecError
from plat.spec.composition.leaf import show
from plat.spec.expansion.matrix import Matrix
from plat.spec.reading.overrides import CommandLine
from plat.spec.reading.yaml_reader import Document
from plat.suggest import suggest

REPLICATES = ("seed", "model.base.seed")  # axes whose values are repetitions, not conditions
KEYS = ("most", "looks", "margin", "error", "study")
LOOKS = (8, 12, 18, 27)  # pairs; `benchmarks/error_rates.py sequential` compares others
LEAST = 8  # pairs of the first look: with five, four rows whose values are tosses are shown in .125 of cases
ERROR, MOST_ERROR = 0.025, 0.1  # one-sided
APART = 2  # least pairs between two looks
EXAMPLE = f"write `decide: true`, or `decide: {{most: {LOOKS[-1]}, margin: 5}}`"


@dataclass(frozen=True)
class Decide:
    """Hold what is fixed before the first run.

    looks   pairs of runs at each look, rising; the last is the most
    margin  the smallest effect of interest, in the unit of the measures; None: each claim's `smallest`
    where   the position in the file or command line, for messages
    usual   True if looks are the default ones: with several builds they are changed to whole seeds
    error   of *shown*, one-sided, over all looks and rows of a claim
    study   the study of `plat judge` to which the file belongs; "" without
    unused  seeds of the matrix after those of the last look
    """

    looks: tuple[int, ...] = LOOKS
    margin: float | None = None
    where: str = ""
    usual: bool = True
    error: float = ERROR
    study: str = ""
    unused: tuple[int, ...] = ()


def taken(document: Document, line: CommandLine) -> tuple[Decide | None, CommandLine]:
    """Return the settings of `decide`, None without, and the command line without them.

    Raises SpecError for an unknown key, looks that do not rise or begin too early, or a margin that is not above 0.
    """
    own = [one for one in line.assignments if one.key == "decide" or one.key.startswith("decide.")]
    rest = CommandLine([one for one in line.assignments if one not in own], line.axes)
    given = document.data.get("decide") if isinstance(document.data, dict) else None
    where = document.where("decide") if given is not None else ""
    for one in own:
        where = where or one.where
        if one.key == "decide":
            given = one.value if not (one.value is True and isinstance(given, dict)) else given
        else:
            given = {**(given if isinstance(given, dict) else {}), one.key.removeprefix("decide."): one.value}
    if given is None or given is False:
        return None, rest
    if given is True:
        return Decide(where=where), rest
    if not isinstance(given, dict):
        raise SpecError(f"decide: {show(given)} is no setting", where=where, fix=EXAMPLE)
    for key in given:
        if key not in KEYS:
            raise SpecError(f"decide: unknown key {key!r}", where=where, fix=suggest(key, KEYS, "keys"))
    usual = given.get("most") is None and given.get("looks") is None
    looks, margin, error = _looks(given, where), _margin(given.get("margin"), where), _error(given.get("error"), where)
    return Decide(looks, margin, where, usual, error, str(given.get("study") or "")), rest


def _looks(given: Mapping[str, Any], where: str) -> tuple[int, ...]:
    """Return the looks of the settings; without `looks`, the usual ones before `most`, and `most`."""
    most, looks = given.get("most"), given.get("looks")
    if most is not None and not _is_count(most):
        what = f"decide: most: {show(most)} is no number of pairs"
        raise SpecError(what, where=where, fix=f"write a whole number, for example {LOOKS[-1]}")
    if most is not None and most < LEAST:
        what = f"decide: most: {show(most)}: a first look needs {LEAST} pairs of runs"
        raise SpecError(what, where=where, fix=f"write most: {LEAST} or more, for example {LOOKS[-1]}")
    if looks is None:
        return looks_of(LOOKS[-1] if most is None else most)
    if not isinstance(looks, list) or not looks or not all(map(_is_count, looks)):
        raise SpecError(f"decide: looks: {show(looks)} is no list of pairs", where=where, fix=f"write {list(LOOKS)}")
    if looks[0] < LEAST or any(later - look < APART for look, later in pairwise(looks)):
        what = (
            f"decide: looks: {looks}: they begin at {LEAST} pairs or later, and each is {APART} or more after the last"
        )
        raise SpecError(what, where=where, fix=f"write for example {list(LOOKS)}")
    if most is not None and looks[-1] != most:
        what = f"decide: the last look is at {looks[-1]} pairs, and most is {most}"
        raise SpecError(what, where=where, fix="leave out `most`, or make the last look equal to it")
    return tuple(looks)


def looks_of(most: int) -> tuple[int, ...]:
    """Return the usual looks before `most` pairs, and `most`."""
    return (*(look for look in LOOKS if look + APART <= most), most)


def _margin(margin: Any, where: str) -> float | None:
    is_number = isinstance(margin, int | float) and not isinstance(margin, bool)
    if margin is not None and not (is_number and 0 < margin < float("inf")):
        what = f"decide: margin: {show(margin)} is not the size of an effect"
        raise SpecError(what, where=where, fix="give a number above 0, in the unit of the measure")
    return None if margin is None else float(margin)


def _error(error: Any, where: str) -> float:
    is_number = isinstance(error, int | float) and not isinstance(error, bool)
    if error is not None and not (is_number and 0 < error <= MOST_ERROR):
        what = f"decide: error: {show(error)} is not an error from above 0 to {MOST_ERROR:g}"
        raise SpecError(what, where=where, fix=f"leave it out: it is {ERROR:g}, one-sided")
    return ERROR if error is None else float(error)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _whole_seeds(looks: tuple[int, ...], builds: int) -> tuple[int, ...]:
    """Return looks in multiples of `builds`: the last is rounded down, so that the first can still show a row."""
    last = max(looks[-1] // builds, 1) * builds
    while last < LEAST:
        last += builds
    up = sorted({-(-look // builds) * builds for look in looks[:-1]})
    return (*(look for look in up if look + APART <= last), last)


def with_seeds(decide: Decide, matrix: Matrix) -> tuple[Decide, list[int]]:
    """Return the settings with looks at whole seeds, and the seeds of the last look.

    Raises SpecError if the matrix has no axis of seeds, its seeds are no whole numbers, rows of the file choose among
    them, or a look is not at whole seeds.
    """
    axes = {axis.name: axis for axis in matrix.axes}
    if "seed" not in axes:
        what = "decide adds seeds, and the matrix has no axis `seed`"
        raise SpecError(what, where=decide.where, fix="add `seed: range(5)` to the matrix")
    for rows, kind in ((matrix.include, "include"), (matrix.exclude, "exclude")):
        if row := next((row for row in rows if "seed" in row.values), None):
            what = f"decide adds whole blocks of seeds, and this row of `{kind}` chooses among them"
            raise SpecError(what, where=row.where, fix="leave the seed out of the row")
    if any("seed" in group for group in matrix.zips):
        raise SpecError("decide adds seeds, and `zip` binds them", where=matrix.where, fix="leave the seed out of zip")
    seeds = axes["seed"].labels()
    if not all(_is_count(seed) for seed in seeds):
        raise SpecError("decide needs seeds that are whole numbers", where=axes["seed"].where, fix="write range(5)")
    builds = len(axes["model.base.seed"].values) if "model.base.seed" in axes else 1
    looks = _whole_seeds(decide.looks, builds)
    if looks != decide.looks and not decide.usual:
        what = f"decide: looks at {list(decide.looks)} pairs, and a seed adds {builds} of them, one for each build"
        raise SpecError(what, where=decide.where, fix=f"write multiples of {builds}, for example {list(looks)}")
    number = looks[-1] // builds
    more = range(max(seeds) + 1, max(seeds) + 1 + max(0, number - len(seeds)))
    return replace(decide, looks=looks, unused=tuple(seeds[number:])), [*seeds, *more][:number]
