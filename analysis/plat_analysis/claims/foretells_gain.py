"""Whether a signal that is there before training goes with what the filter then gains, over settings (Table 8).

Spearman's correlation over starts, by permutation of whole starts (`statistics.correlation`): settings that share a
base model and a task have the same signal, and count once. Every signal named is judged; all share the error (Holm).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.contrasts.precheck import arrays, measured, sides_of
from plat_analysis.data.runs import Results
from plat_analysis.facets import AxisNames
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS, between

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def _beforehand(
    results: Results,
    *,
    settings: AxisNames,
    signals: Mapping[str, Any],
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = "top_p",
    **_: Any,
) -> None:
    """SpecError where no signal is named, or the settings are not paired or too few."""
    if not signals:
        raise SpecError("signals: none is named", mend="write {NAME: MEASURE}")
    for measure in signals.values():
        quantity(measure)
    sides_of(results, settings, pair, baseline, treatment)


@checked_by(_beforehand)
def foretells_gain(
    frames: Frames,
    experiment: Experiment,
    *,
    settings: AxisNames,
    signals: Mapping[str, Any],
    outcome: Any = "final",
    pair: str = "filter",
    baseline: Any = "none",
    treatment: Any = "top_p",
    sign: Literal["positive", "negative"] = "positive",
    looks: int = 1,
) -> Verdict:
    """Settings that start with more of each signal gain more from the treatment.

    settings  axes whose values together are the settings
    signals   name -> what is measured of the runs with the baseline, e.g. {metric: rollout/rv_std_over_mean, at: 1}
    outcome   what the treatment changes (see `plat_analysis.quantities.metric`)
    pair      the axis with `baseline` and `treatment`
    sign      positive or negative
    looks     how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    sides = sides_of(Results.of(frames, experiment), settings, pair, baseline, treatment)
    found = measured(sides, {name: quantity(signal) for name, signal in signals.items()}, quantity(outcome))
    values = arrays(found)
    tested = {}
    for index, name in enumerate(signals):
        if values is None:
            enough = sum(setting.judged for setting in found.values())
            few = (
                f"{enough} of {len(found)} settings have all of their runs; {MIN_SETTINGS} different starts are needed"
            )
            tested[name] = RowTests(None, None, f"{name} ({few})")
            continue
        rank = between(values[index], values[-1])
        p, opposite = (rank.above, rank.below) if sign == "positive" else (rank.below, rank.above)
        bounds = f"[{number(rank.low, 2, True)}, {number(rank.high, 2, True)}]"
        line = f"{name}: {number(rank.rho, 2, True)} {bounds} over {rank.settings} starts, p {p_value(p)} (permutation)"
        tested[name] = RowTests(p, opposite, line)
    decision = decide(tested, looks)
    ids = dict.fromkeys(run for setting in found.values() for run in setting.gain.run_ids)
    lines = (*decision.lines, f"{len(found)} settings; those with one base model and task are one start")
    return Verdict(decision.status, None, "; ".join(lines), tuple(ids), lines=lines, p=decision.p)


FORETELLS_GAIN = foretells_gain
