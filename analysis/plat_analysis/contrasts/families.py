"""Group the settings of a sweep into families, within which permutation tests exchange them.

Settings that change the same option of the base setting are alike for a known reason: all settings with a filter, or
all with a KL penalty. A measure and an outcome that both differ between such families correlate over all settings,
although neither has to do with the other within any family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis.data.results import RunView, spell
from plat_analysis.facets import AxisNames, axes

Within = AxisNames | Mapping[str, Sequence[Any]]  # axes, or family -> its settings
Family = frozenset[str]  # a setting that has several names may be in several families: these make a family of their own
Names = Sequence[tuple[str, ...]]  # the names of each setting


def families_by_axes(runs: Sequence[Sequence[RunView]], within: AxisNames) -> tuple[Family, ...]:
    """Return the family of each setting: the values of these axes, or config keys, in its runs.

    Args:
        runs: the runs of each setting.
        within: names of axes or config keys; () makes one family of all.

    Raises:
        SpecError: runs of one setting differ in such an axis, or lack it.
    """
    found = []
    for own in runs:
        values = []
        for axis in axes(within):
            kinds = sorted({run.axis(axis) for run in own})
            if len(kinds) > 1:
                what = f"within: {axis!r} differs between the runs of one setting: {' and '.join(kinds[:2])}"
                raise SpecError(what, fix="name an axis whose values group the settings")
            values.append(kinds[0])
        found.append(frozenset({" · ".join(values)}))
    return tuple(found)


def families_by_name(names: Names, members: Mapping[str, Sequence[Any]], option: str) -> tuple[Family, ...]:
    """Return the families that list each setting.

    Args:
        names: the names of each setting.
        members: family -> its settings.
        option: the option that gives `members`, for messages.

    Raises:
        SpecError: a family lists an unknown setting, or a setting is in no family.
    """
    known = [name for own in names for name in own]
    spelt = {family: [spell(value) for value in listed] for family, listed in members.items()}
    for family, listed in spelt.items():
        for name in listed:
            if name not in known:
                raise SpecError(f"{option}: {family!r} names {name!r}", fix=suggest(name, known, "settings"))
    found = tuple(frozenset(family for family, listed in spelt.items() if set(own) & set(listed)) for own in names)
    for own, families in zip(names, found, strict=True):
        if not families:
            raise SpecError(f"{option}: the setting {own[0]!r} is in no family", fix="add it to one of them")
    return found


def families_by_change(
    positions: Sequence[Sequence[RunView]], changes: Mapping[str, Mapping[Any, tuple[str, ...]]], of: Sequence[str]
) -> tuple[Family, ...]:
    """Return, for each setting, the options in which the file lets it differ from the base setting.

    A setting that differs in no option is alone, unless all others are of one family.

    Args:
        positions: for each setting, a run at each of its positions in the matrix.
        changes: axis -> value -> the options that the value changes (see `Experiment.changes`).
        of: the axes that make the settings.
    """
    found = []
    for own in positions:
        changed = [{key for axis in of for key in changes.get(axis, {}).get(run.axes.get(axis), ())} for run in own]
        found.append(frozenset(" + ".join(sorted(keys)) for keys in changed))
    others = {family for family in found if family != {""}}
    return tuple(next(iter(others)) if len(others) == 1 else family for family in found)


def sizes(families: Sequence[Family], units: str = "settings") -> str:
    """Return `18 settings in 4 families (7, 5, 5, 1)`, or `18 settings` of one family."""
    counts = sorted((list(families).count(family) for family in dict.fromkeys(families)), reverse=True)
    if len(counts) == 1:
        return f"{len(families)} {units}"
    return f"{len(families)} {units} in {len(counts)} families ({', '.join(map(str, counts))})"
