"""Say a row of a claim in words: its number, its p-values, and where its changes break what the tests assume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from plat.units import counted
from plat_analysis.artifact import interval, number, p_value
from plat_analysis.statistics.assumptions import COMMON, common_seeds, one_sided
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import SUCH_BUILDS
from plat_analysis.statistics.significance import flips_above, shown_above
from plat_analysis.statistics.tasks import TASKS, signed_rank_p
from plat_analysis.statistics.unpaired import RUNS, least_p

if TYPE_CHECKING:
    from plat_analysis.claims.decided import RowEvidence


def row_line(row: str, item: RowEvidence) -> str:
    """Return a row with its change, interval and published change; with what is missing if it lacks runs."""
    estimate = item.estimate
    if not estimate.complete:
        return f"{row} ({estimate.note or f'{estimate.seeds}/{estimate.wanted} seeds'})".strip()
    shown = f"{row} {number(estimate.value, item.digits, signed=True)}".strip()
    if estimate.error is None:  # an interval over instances is left out: it says nothing about another run
        few = (
            estimate.note
            if estimate.over == TASKS
            else counted(estimate.seeds, "run" if estimate.over == RUNS else "seed")
        )
        return f"{shown} ({few})"
    published = f", published {number(item.published, signed=True)}" if item.published is not None else ""
    return f"{shown} {interval(estimate, item.digits, signed=True)}{published}"


def p_values_in_words(guarded: Estimate | None, below: float | None, digits: int, is_open: bool) -> str:
    """Return `, p .003 (t), .031 (sign flips)` before Holm's procedure, with the bound where it is not zero.

    guarded  the estimate with the error of its tests; "" is returned without one
    below    the bound below which the row is shown to be; None for the test of "above zero"
    digits   shown of the bound
    is_open  True for a row that is not decided
    """
    if guarded is None:
        return ""
    estimate, bound = (guarded, 0.0) if below is None else (guarded.scaled(-1.0), -below)
    against = f", both against {number(-bound, digits, signed=True)}" if bound else ""
    if estimate.over == RUNS:
        t, other = p_value(estimate.p_above(bound)), p_value(flips_above(estimate, bound))
        least = p_value(least_p(*map(len, estimate.samples)))
        return f", p {t} (Welch), {other} (permutation of runs, at least {least}){against}"
    ranks = f", {p_value(signed_rank_p(estimate.samples[0], bound))} (signed ranks)" if estimate.over == TASKS else ""
    return f", p {_both(estimate, bound, is_open)}{ranks}{against}"


def _both(estimate: Estimate, bound: float, is_open: bool) -> str:
    """Return both p-values; `, the least that 5 seeds allow` in an open row where sign flips decide and show no more.

    t is that of the spread of all rows where this decides (see `significance.shown_above`).
    """
    used, t, flips = shown_above(estimate, bound), estimate.p_above(bound), flips_above(estimate, bound)
    least = min(map(len, estimate.samples), default=0)
    at_least = is_open and used == flips == 0.5**least
    floor = f", the least that {least} {_units(estimate)} allow" if at_least else ""
    return f"{p_value(used if used < flips else t)} (t), {p_value(flips)} (sign flips{floor})"


def _units(estimate: Estimate) -> str:
    """Return what the smallest sample of an estimate counts: seeds, builds, or runs on several builds."""
    if estimate.about != SUCH_BUILDS:
        return "seeds" if estimate.freedom == estimate.units - 1 else "runs"
    return "builds" if len(estimate.samples[0]) == min(map(len, estimate.samples)) else "seeds"


def skew(sample: Sequence[float], digits: int) -> str:
    """Return `; median +2.4, largest loss −20.1` for a row with a loss far from its other gains, or a gain; else ""."""
    found = one_sided(sample) if sample else None
    if found is None or found.median * found.furthest >= 0:
        return ""
    middle, furthest = (number(value, digits, signed=True) for value in found)
    return f"; median {middle}, largest {'loss' if found.furthest < 0 else 'gain'} {furthest}"


def dependence(estimates: Mapping[str, Estimate], of: str = "changes") -> str:
    """Return a warning where changes (or `of`) of one seed agree across builds, in the row where they do most; else "".

    If builds share effects of seeds, they are no independent units, and the error of the verdict is larger than
    promised: .06 to .10 for two builds whose changes share 60 to 90 % of their variance. The warning comes in 31 and
    83 % of such claims with five seeds, and in `COMMON` of the claims whose builds have nothing in common.
    """
    strata = {row: estimate for row, estimate in estimates.items() if estimate.over == "seeds"}
    found = {row: common for row, estimate in strata.items() if (common := common_seeds(estimate.values))}
    if not found:
        return ""
    row, common = min(found.items(), key=lambda item: item[1].p)
    if common.p * len(found) > COMMON:
        return ""
    at = f" in {row}" if row and len(estimates) > 1 else ""
    by_chance = f"correlation {number(common.correlation, 2)}, by chance in 1 of {1 / COMMON:g} claims"
    return (
        f"{of} of one seed agree across builds{at} ({by_chance}): if builds share effects of seeds, "
        f"{common.seeds} seeds count, not {strata[row].seeds} runs, and the p-value is too small"
    )
