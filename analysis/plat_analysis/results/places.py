"""The runs of an experiment grouped by what they have in common, and why a group is refused.

One run of a seed and build is all that a place of a table or figure may have, and two sides of a pair must have the
same seeds and builds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plat.errors import SpecError
from plat_analysis.results.runs import Results, RunView, spell
from plat_analysis.statistics.replicates import Replicate


def places(results: Results, rows: Sequence[str], columns: str) -> dict[tuple[str, str], dict[Replicate, RunView]]:
    """(row, column) -> its runs, in the order of the experiment file; SpecError where one has two runs of one seed and
    build. Several row axes are joined."""
    groups: dict[tuple[str, str], dict[Replicate, RunView]] = {}
    for run in results.positions:
        key = (" · ".join(run.axis(axis) for axis in rows), run.axis(columns))
        add_run(groups.setdefault(key, {}), run, " × ".join(key))
    return groups


def panels(
    results: Results, rows: str | Sequence[str] | None, columns: str, pair: str
) -> dict[tuple[str, str, str], list[RunView]]:
    """(row, column, condition) -> its runs, for figures with a line for every condition; SpecError where one has two
    runs of one seed. Without rows: `variant` where the experiment has that axis, else a single row without a name."""
    if rows is None:
        rows = [axis for axis in ("variant",) if axis in results.experiment.axes]
    axes = (rows,) if isinstance(rows, str) else tuple(rows)
    groups: dict[tuple[str, str, str], dict[Replicate, RunView]] = {}
    for run in results.positions:
        key = (" · ".join(run.axis(axis) for axis in axes), run.axis(columns), run.axis(pair))
        add_run(groups.setdefault(key, {}), run, " × ".join(filter(None, key)))
    return {key: list(runs.values()) for key, runs in groups.items()}


def conditions(
    results: Results, pair: str, baseline: Any, treatment: Any = None
) -> tuple[dict[str, dict[Replicate, RunView]], str, str]:
    """(condition -> its runs, baseline first; baseline; treatment) over all runs; `treatment` is by default the first
    other value. SpecError where a condition has two runs of one seed, or the two sides different seeds."""
    groups: dict[str, dict[Replicate, RunView]] = {}
    for run in results.positions:
        condition = run.axis(pair)
        add_run(groups.setdefault(condition, {}), run, f"{pair}={condition}")
    baseline = spell(baseline)
    others = [condition for condition in groups if condition != baseline]
    treatment = spell(treatment) if treatment is not None else next(iter(others), baseline)
    check_same_replicates(groups.get(baseline, {}), groups.get(treatment, {}), pair, baseline, treatment)
    return {c: groups[c] for c in (baseline, *others) if c in groups}, baseline, treatment


def add_run(runs: dict[Replicate, RunView], run: RunView, place: str) -> None:
    """Add a run to those of one place; SpecError where one of the same seed and build is there already."""
    if run.replicate in runs:
        raise SpecError(
            f"more than one run for {place}, seed {run.seed}: {runs[run.replicate].run.name} and {run.run.name}",
            mend="name the axis in which they differ under `rows`, if the builder has it, or choose one of its values",
        )
    runs[run.replicate] = run


def check_same_replicates(
    first: Mapping[Replicate, RunView], second: Mapping[Replicate, RunView], place: str, baseline: str, treatment: str
) -> None:
    """SpecError where two conditions that both have runs have them for different seeds or builds."""
    if not first or not second or first.keys() == second.keys():
        return
    many_builds = len({replicate.build for replicate in [*first, *second]}) > 1
    unpaired = {
        condition: ", ".join(str(r if many_builds else Replicate(None, r.seed)) for r in own if r not in other)
        for condition, own, other in ((baseline, first, second), (treatment, second, first))
    }
    only = "; ".join(f"only {condition} has {names}" for condition, names in unpaired.items() if names)
    raise SpecError(
        f"the two sides of a pair have different runs, {place}: {only}",
        mend="give both sides the same seeds and builds: check `include`, `exclude` and `zip`",
    )
