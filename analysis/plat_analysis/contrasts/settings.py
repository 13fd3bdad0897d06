"""The settings of a row: what runs of a sweep differ in beside build and seed, and what is measured of their runs.

    rows = settings_of(results, conditions="setting", rows="algorithm")
    pair = rows["ppo"].pair(proxy, final)       # arrays [setting, build, seed] for `statistics.correlation`
    covariates(rows["ppo"], {"KL": ["KL 0", "KL .001", "KL .01"], ...})

Settings that are the same runs, such as *KL 0* and *entropy 0*, are one setting: they would count twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat.suggest import mend
from plat_analysis.contrasts.side import Side
from plat_analysis.data.runs import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, Runs
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS, rank

Array = NDArray[np.float64]
Strength = Mapping[str, Sequence[Any]]  # family -> its settings, from the weakest to the strongest


@dataclass(frozen=True)
class Pair:
    """Two measures of every run, as arrays [setting, build, seed]; NaN in both where a run lacks one of them.

    note   which settings lack how many runs, and why; "" where none is missing
    """

    x: Array
    y: Array
    run_ids: tuple[str, ...]
    note: str

    @property
    def complete(self) -> bool:
        """Whether every run has both."""
        return not np.isnan(self.x).any()


@dataclass(frozen=True)
class Settings:
    """The settings of one row: the names that each has, and its runs, by build and seed."""

    names: tuple[tuple[str, ...], ...]
    sides: tuple[Side, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Every wanted run."""
        return tuple(run.id for side in self.sides for run in side.runs.values())

    @property
    def replicates(self) -> int:
        """How many runs a setting has."""
        return len(self.sides[0].runs)

    def pair(self, proxy: Quantity, outcome: Quantity) -> Pair:
        """Both measures of all runs, in the unit in which they are shown."""
        builds = dict.fromkeys(replicate.build for replicate in self.sides[0].runs)
        shape = (len(self.sides), len(builds), self.replicates // len(builds))
        values = np.full((2, len(self.sides), self.replicates), np.nan)
        ids, notes = [], []
        for index, side in enumerate(self.sides):
            both = side.measured(proxy), side.measured(outcome)
            present = [(place, r) for place, r in enumerate(side.runs) if all(r in measured for measured in both)]
            for place, replicate in present:
                values[:, index, place] = [measured[replicate].value for measured in both]
            ids += [side.runs[replicate].id for _, replicate in present]
            if len(present) < len(side.runs):
                why = side.reason(outcome) or side.reason(proxy)
                notes.append(f"{' = '.join(self.names[index])} has {len(present)} of {len(side.runs)} runs ({why})")
        x, y = values.reshape(2, *shape)
        return Pair(proxy.factor * x, outcome.factor * y, tuple(ids), "; ".join(notes))


def settings_of(results: Results, conditions: str | Sequence[str], rows: AxisNames = None) -> dict[str, Settings]:
    """The settings of each row. SpecError where they are too few, have other seeds or builds, or share some runs."""
    facets = Facets(results, Layout.of(rows=rows, conditions=conditions))
    for other in facets.conditions[1:]:
        facets.check_pairs(facets.conditions[0], other)
    return {row: _of_row(facets, row) for row in facets.rows}


def _of_row(facets: Facets, row: str) -> Settings:
    same: dict[frozenset[str], list[str]] = {}
    runs: dict[frozenset[str], Runs] = {}
    for name in facets.conditions:
        if present := facets.runs(row, "", name):
            key = frozenset(run.id for run in present.values())
            same.setdefault(key, []).append(name)
            runs[key] = present
    where, axis = f" ({row})" if row else "", " · ".join(facets.layout.conditions)
    if len(same) < MIN_SETTINGS:
        merged = sum(map(len, same.values())) - len(same)
        raise SpecError(
            f"a correlation needs {MIN_SETTINGS} settings, and {axis!r} has {len(same)}{where}"
            + (f", since {merged} more are the same runs" if merged else ""),
            mend="add values to that axis, or compare conditions with mean_delta_positive or trend",
        )
    if len(frozenset().union(*same)) < sum(map(len, same)):
        raise SpecError(
            f"some values of {axis!r} share a part of their runs{where}: they are not independent",
            mend="leave one of them out of the matrix",
        )
    counts = {len(of_build) for of_build in _by_build(next(iter(runs.values()))).values()}
    if len(counts) > 1:
        raise SpecError(f"builds have different numbers of seeds{where}", mend="give every build the same number")
    return Settings(tuple(map(tuple, same.values())), tuple(Side(facets.results, runs[key]) for key in same))


def _by_build(runs: Runs) -> dict[Any, list[Any]]:
    builds: dict[Any, list[Any]] = {}
    for replicate in runs:
        builds.setdefault(replicate.build, []).append(replicate.seed)
    return builds


def covariates(settings: Settings, strength: Strength) -> Array:
    """[setting, covariate]: for each family whether a setting belongs to it, and its rank of strength there, 0 to 1.

    Each family has a slope of its own, since knobs may act in opposite ways. SpecError where a
    setting has no family or a name no setting, or where too few settings are left beside the covariates.
    """
    known = [name for names in settings.names for name in names]
    spelt = {family: [spell(value) for value in order] for family, order in strength.items()}
    for family, order in spelt.items():
        for name in order:
            if name not in known:
                raise SpecError(f"strength: {family!r} names {name!r}", mend=mend(name, known, "settings"))
    for names in settings.names:
        if not any(name in order for name in names for order in spelt.values()):
            raise SpecError(f"strength: the setting {names[0]!r} is in no family", mend="add it to one of them")
    columns = []
    for order in spelt.values():
        places = [next((order.index(name) for name in names if name in order), None) for names in settings.names]
        columns.append([float(place is not None) for place in places])
        columns.append([(place or 0) / max(1, len(order) - 1) for place in places])
    found = np.array(columns).T
    if len(found) - rank(found) < MIN_SETTINGS:
        raise SpecError(
            f"strength: {len(found)} settings are too few beside {rank(found)} covariates of {len(spelt)} families",
            mend="name fewer families, or leave `strength` out",
        )
    return found
