"""Whether measures go with an outcome over the settings of a sweep, or over the runs within them, in every row.

The test is by permutation of what is independent: settings with all their builds and seeds, or seeds (see
`statistics.correlation`). That a correlation is *not positive* cannot be shown as such, since zero is no number that a
test tells from a little more. It is called so where it is shown to be below `smallest`, on Fisher's scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.contrasts.settings import Pair, Settings, Strength, covariates, settings_of
from plat_analysis.data.runs import Results
from plat_analysis.facets import AxisNames
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import Correlation, between, other_builds, partial, within
from plat_analysis.statistics.intervals import MIN_JUDGED

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

Across = Literal["between", "within"]
Sign = Literal["positive", "negative", "not_positive"]


def _beforehand(
    results: Results,
    *,
    conditions: str | Sequence[str],
    proxies: Mapping[str, Any],
    across: Across = "between",
    rows: AxisNames = None,
    strength: Strength | None = None,
    smallest: float = 0.3,
    **_: Any,
) -> None:
    """SpecError where the claim cannot be judged by any runs."""
    if not proxies:
        raise SpecError("proxies: none is named", mend="write {NAME: MEASURE}, e.g. {retrieval: probe/retrieval_acc}")
    if strength and across == "within":
        raise SpecError("strength: runs of one setting have the same", mend="leave it out, or judge across: between")
    if not 0 <= smallest < 1:
        raise SpecError(f"smallest: {smallest:g} is no size of a correlation", mend="give a number from 0 to below 1")
    for settings in settings_of(results, conditions, rows).values():
        if strength:
            covariates(settings, strength)


@checked_by(_beforehand)
def correlated(
    frames: Frames,
    experiment: Experiment,
    *,
    conditions: str | Sequence[str],
    proxies: Mapping[str, Any],
    outcome: Any = "final",
    sign: Sign = "positive",
    across: Across = "between",
    rows: AxisNames = None,
    strength: Strength | None = None,
    smallest: float = 0.3,
    looks: int = 1,
) -> Verdict:
    """Each of some measures goes with an outcome (Spearman), in every row; all of them share the error (Holm).

    It needs six settings with five runs each, and no run may be missing.

    conditions  the axis, or list of axes, whose values are the settings
    proxies     name -> what is measured of a run (see `plat_analysis.quantities.metric`)
    outcome     the measure with which they go
    sign        positive, negative, or not_positive: below `smallest`; not reproduced where the opposite is shown
    across      between settings, of means over their seeds; or within them, of what is left of each run
    rows        axes that make the rows (default: one row)
    strength    family -> its settings from the weakest to the strongest; what that explains is taken away
    smallest    the smallest correlation of interest
    looks       how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    of_rows = settings_of(Results.of(frames, experiment), conditions, rows)
    tested = {}
    for row, settings in of_rows.items():
        given = covariates(settings, strength) if strength else None
        for proxy, measure in proxies.items():
            name = ", ".join(filter(None, [row, proxy]))
            pair = settings.pair(quantity(measure), quantity(outcome))
            tested[name] = _tested(name, settings, pair, given, across, sign, smallest)
    decision = decide(tested, looks)
    ids = dict.fromkeys(run for settings in of_rows.values() for run in settings.run_ids)
    lines = (*decision.lines, "about these builds of the base model, over settings like these")
    return Verdict(decision.status, None, "; ".join(lines), tuple(ids), lines=lines, p=decision.p)


CORRELATED = correlated


def _tested(
    name: str, settings: Settings, pair: Pair, given: Any, across: Across, sign: Sign, smallest: float
) -> RowTests:
    if not pair.complete:
        return RowTests(None, None, f"{name} ({pair.note})")
    if settings.replicates < MIN_JUDGED:
        return RowTests(None, None, f"{name} ({settings.replicates} runs a setting, {MIN_JUDGED} are needed)")
    if across == "within":
        found = within(pair.x, pair.y)
    else:
        found = between(pair.x, pair.y) if given is None else partial(pair.x, pair.y, given)
    p = {"positive": found.above, "negative": found.below, "not_positive": found.p_under(smallest)}[sign]
    opposite = found.below if sign == "positive" else found.above
    shown = f"p {p_value(p)} (permutation)"
    if sign == "not_positive":
        shown = f"p {p_value(p)} against {number(smallest, 2)}, {p_value(opposite)} for more than zero (permutation)"
    elsewhere = other_builds(pair.x, pair.y) if across == "between" and given is None else None
    apart = f"; with the other builds' outcomes {_words(elsewhere)}" if elsewhere else ""
    how = f"{across} {found.settings} settings{', strength taken away' if given is not None else ''}"
    return RowTests(p, opposite, f"{name}: {_words(found)} {how}, {shown}{apart}")


def _words(found: Correlation) -> str:
    return f"{number(found.rho, 2, True)} [{number(found.low, 2, True)}, {number(found.high, 2, True)}]"
