"""Correlate two measures between the settings of a row or within them; predict an outcome of settings left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.errors import SpecError
from plat_analysis.artifact import p_value
from plat_analysis.contrasts.cell import Side
from plat_analysis.contrasts.families import (
    Family,
    Within,
    families_by_axes,
    families_by_change,
    families_by_name,
    sizes,
)
from plat_analysis.data.results import Results, spell
from plat_analysis.facets import AxisNames, Facets, Layout, Runs
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.correlation import (
    MIN_SETTINGS,
    Correlation,
    apart,
    between,
    over_runs,
    partial,
    rank,
    within,
)
from plat_analysis.statistics.intervals import MIN_JUDGED
from plat_analysis.statistics.orders import smallest_p
from plat_analysis.statistics.significance import ERROR

# Lay out the settings of a row, which differ in more than build and seed, and measure their runs.
#
#     rows = OverSettings(conditions="setting", rows="algorithm").settings(results)
#     pair = rows["ppo"].pair(proxy, final)       # arrays [setting, build, seed] for `statistics.correlation`
#     covariates(rows["ppo"], {"KL": ["KL 0", "KL .001", "KL .01"], ...})
#
# Settings that are the same runs, such as *KL 0* and *entropy 0*, count as one setting.

Array = NDArray[np.float64]
Strength = Mapping[str, Sequence[Any]]  # family -> its settings, from the weakest to the strongest


@dataclass(frozen=True)
class Pair:
    """Hold two measures of every run, as arrays [setting, build, seed]; NaN in both where a run lacks one of them.

    note   which settings lack how many runs, and why; "" where none is missing
    """

    x: Array
    y: Array
    run_ids: tuple[str, ...]
    note: str

    @property
    def complete(self) -> bool:
        """Return True if every run has both."""
        return not np.isnan(self.x).any()


@dataclass(frozen=True)
class Settings:
    """Hold the settings of one row: the names of each (several if they are the same runs), its runs and its family."""

    names: tuple[tuple[str, ...], ...]
    sides: tuple[Side, ...]
    families: tuple[Family, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Return the ids of all wanted runs."""
        return tuple(run.id for side in self.sides for run in side.runs.values())

    @property
    def replicates(self) -> int:
        """Return how many runs a setting has."""
        return len(self.sides[0].runs)

    def pair(self, proxy: Quantity, outcome: Quantity) -> Pair:
        """Return proxy and outcome of all runs, each in its shown unit; NaN in both where a run lacks one."""
        builds = dict.fromkeys(replicate.build for replicate in self.sides[0].runs)
        shape = (len(self.sides), len(builds), self.replicates // len(builds))
        values = np.full((2, len(self.sides), self.replicates), np.nan)
        ids, notes = [], []
        for index, side in enumerate(self.sides):
            both = side.measured(proxy), side.measured(outcome)
            present = [(at, r) for at, r in enumerate(side.runs) if all(r in measured for measured in both)]
            for at, replicate in present:
                values[:, index, at] = [measured[replicate].value for measured in both]
            ids += [side.runs[replicate].id for _, replicate in present]
            if len(present) < len(side.runs):
                why = side.reason(outcome) or side.reason(proxy)
                notes.append(f"{' = '.join(self.names[index])} has {len(present)} of {len(side.runs)} runs ({why})")
        x, y = values.reshape(2, *shape)
        return Pair(proxy.factor * x, outcome.factor * y, tuple(ids), "; ".join(notes))


@dataclass(frozen=True, kw_only=True)
class OverSettings:
    """Hold the options of judging an outcome over settings.

    conditions  the axis, or list of axes, whose values are the settings
    outcome     the measure of a run that is predicted or correlated (see `plat_analysis.quantities.metric`)
    rows        axes that make the rows (default: one row)
    within      the families within which the test permutes settings: an axis or config key (or a list of these) whose
                values they are, or family -> its settings; [] is one family of all. Default: settings that change the
                same options of the base setting are a family
    """

    conditions: str | Sequence[str]
    outcome: Any = "final"
    rows: AxisNames = None
    within: Within = None

    def settings(self, results: Results) -> dict[str, Settings]:
        """Return row -> its settings; conditions with the same runs are one setting.

        Raises SpecError if settings are fewer than `MIN_SETTINGS`, differ in seeds or builds, or share only some of
        their runs, if builds have different numbers of seeds, or if `within` does not group these settings.
        """
        facets = Facets(results, Layout.of(rows=self.rows, conditions=self.conditions))
        for other in facets.conditions[1:]:
            facets.check_pairs(facets.conditions[0], other)
        return {row: _of_row(facets, row, self.within) for row in facets.rows}


def _of_row(facets: Facets, row: str, within: Within) -> Settings:
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
            fix="add values to that axis, or compare conditions with mean_delta_positive or trend",
        )
    if len(frozenset().union(*same)) < sum(map(len, same)):
        raise SpecError(
            f"some values of {axis!r} share some of their runs{where}: they are not independent",
            fix="leave one of them out of the matrix",
        )
    counts = Counter(replicate.build for replicate in next(iter(runs.values())))
    if len(set(counts.values())) > 1:
        raise SpecError(f"builds have different numbers of seeds{where}", fix="give every build the same number")
    names = tuple(map(tuple, same.values()))
    sides = tuple(Side(facets.results, runs[key]) for key in same)
    if isinstance(within, Mapping):
        return Settings(names, sides, families_by_name(names, within, "within"))
    if within is not None:
        return Settings(names, sides, families_by_axes([list(side.runs.values()) for side in sides], within))
    positions = [[next(iter(facets.runs(row, "", name).values())) for name in own] for own in names]
    changes = facets.results.experiment.changes
    return Settings(names, sides, families_by_change(positions, changes, facets.layout.conditions))


def can_reach(row: str, families: Sequence[Family], level: float, at_least: float = 0.0) -> str:
    """Return `ppo: 18 settings in 4 families (7, 5, 5, 1); smallest p below .0001, needed .025`.

    at_least  the smallest p-value that another test of the same claim allows
    """
    least = p_value(max(smallest_p(families), at_least))
    return f"{f'{row}: ' if row else ''}{sizes(families)}; smallest p {least}, needed {p_value(level)}"


def check_decidable(families: Sequence[Family], level: float, where: str, at_least: float = 0.0) -> None:
    """Refuse families in which no permutation test can reach a level.

    Args:
        families: the family of each setting.
        level: the largest p-value that shows something.
        where: the row, for the message; "" for the only one.
        at_least: the smallest p-value that another test of the same claim allows.

    Raises:
        SpecError: the smallest p-value that these families allow is above the level.
    """
    least = max(smallest_p(families), at_least)
    if least > level:
        what = f"no run can decide this: {sizes(families)}{f' ({where})' if where else ''} have a smallest p of "
        what += f"{p_value(least)}, and {p_value(level)} is needed"
        raise SpecError(what, fix="add settings to the families, or name larger families under `within`")


def covariates(settings: Settings, strength: Strength) -> Array:
    """Return [setting, covariate]: for each family, membership (0 or 1) and rank (weakest 0, strongest 1).

    Settings outside a family get 0 in both, so each family has its own slope. Raises SpecError if a setting is in no
    family, `strength` names an unknown setting, or there are too few settings for that many covariates.
    """
    families_by_name(settings.names, strength, "strength")
    spelt = {family: [spell(value) for value in order] for family, order in strength.items()}
    columns = []
    for order in spelt.values():
        ranks = [next((order.index(name) for name in names if name in order), None) for names in settings.names]
        columns.append([float(at is not None) for at in ranks])
        columns.append([(at or 0) / max(1, len(order) - 1) for at in ranks])
    found = np.array(columns).T
    if len(found) - rank(found) < MIN_SETTINGS:
        raise SpecError(
            f"strength: {len(found)} settings are too few beside {rank(found)} covariates of {len(spelt)} families",
            fix="name fewer families, or leave `strength` out",
        )
    return found


BETWEEN, GIVEN, WITHIN = "between settings", "between, strength taken away", "within a setting"


@dataclass(frozen=True, kw_only=True)
class Correlating(OverSettings):
    """Hold the options of correlating measures with an outcome over settings.

    proxies     name -> the measure of a run (see `plat_analysis.quantities.metric`)
    strength    family -> its settings from the weakest to the strongest. The correlation is then a partial one: without
                what a setting's family, and its place in it, explain of the measure and of the outcome
    """

    proxies: Mapping[str, Any]
    strength: Strength | None = None

    def given(self, settings: Settings) -> Array | None:
        """Return the covariates of strength [setting, covariate]; None without `strength`."""
        return covariates(settings, self.strength) if self.strength else None

    def families(self, settings: Settings) -> tuple[Family, ...]:
        """Return the family of each setting: that of `within`, else of `strength`, else of the options it changes."""
        if self.strength and self.within is None:
            return families_by_name(settings.names, self.strength, "strength")
        return settings.families

    def beforehand(self, results: Results) -> None:
        """Check the options before anything is computed.

        Raises SpecError if no measure is named, if the settings cannot be used (see `settings`), or if `strength` does
        not fit the settings (see `covariates`).
        """
        if not self.proxies:
            raise SpecError(
                "proxies: none is named", fix="write {NAME: MEASURE}, e.g. {retrieval: probe/retrieval_acc}"
            )
        for settings in self.settings(results).values():
            self.given(settings)


@dataclass(frozen=True)
class Shown:
    """Hold the correlation of a measure in a panel, or why there is none.

    apart   the correlation of measure and outcome of different runs (see `statistics.correlation.apart`), whose p-value
            decides; None within a setting
    pooled  the correlation over all runs as if each were independent, for comparison alone
    p       two-sided, corrected over the whole figure (Holm); None where it may not be judged
    """

    found: Correlation | None
    pair: Pair
    apart: Correlation | None = None
    pooled: float | None = None
    p: float | None = None
    note: str = ""

    @property
    def star(self) -> int:
        """Return the sign of the correlation, +1 or -1, if its corrected `p` is at most ERROR; else 0."""
        if self.found is None or self.p is None or self.p > ERROR:
            return 0
        return 1 if self.found.rho > 0 else -1


def shown_correlation(
    pair: Pair, settings: Settings, across: str, given: Any = None, families: Sequence[Family] | None = None
) -> Shown:
    """Return the correlation of a pair, with a `p` that is not corrected yet.

    WITHIN leaves out a setting that lacks any run. BETWEEN and GIVEN leave it out only if one of its builds has no run.
    The note names every setting that lacks runs, left out or not.

    `found` is None, and the note says why, if fewer than MIN_SETTINGS settings are left, if they are too few for the
    covariates (GIVEN), or if a build has one seed (WITHIN). `p` is None then, and also if any run is missing or a
    setting has fewer than MIN_JUDGED runs.

    across    BETWEEN, GIVEN or WITHIN
    given     the covariates of `Correlating.given`; used by GIVEN only
    families  the family of each setting; the tests of BETWEEN and GIVEN permute within families
    """
    missing = np.isnan(pair.x)
    lacking = np.any(missing, axis=(1, 2)) if across == WITHIN else np.any(np.all(missing, axis=2), axis=1)
    kept = np.flatnonzero(~lacking)
    x, y, found = pair.x[kept], pair.y[kept], None
    count, few = len(kept), pair.x.shape[2] < 2 and across == WITHIN
    if count < MIN_SETTINGS or few:
        reason = "one seed" if few else f"{count} of {len(pair.x)} settings"
        return Shown(None, pair, note="; ".join(filter(None, [reason, pair.note])))
    own = None if families is None else [families[int(setting)] for setting in kept]
    deciding: Correlation | None
    if across == WITHIN:
        found = deciding = within(x, y)
    elif across == GIVEN:
        try:
            found, deciding = partial(x, y, given[kept]), apart(x, y, own, given[kept])
        except ValueError as error:  # settings were left out
            return Shown(None, pair, note=f"{error}; {pair.note}")
    else:
        found, deciding = between(x, y), apart(x, y, own)
    # Runs may be missing because of their values.
    judged = deciding.p if deciding and pair.complete and settings.replicates >= MIN_JUDGED else None
    others = None if across == WITHIN else deciding
    return Shown(found, pair, others, over_runs(x, y) if across == BETWEEN else None, judged, pair.note)
