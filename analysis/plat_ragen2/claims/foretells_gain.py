"""Check that a signal before training correlates with the filter's gain, over settings (Table 8).

The test is Spearman's correlation by permutation of starts (`statistics.correlation`): settings that share a base model
and a task have the same signal and are one start. All named signals share the error (Holm).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.builder_options import takes
from plat_analysis.claims.decided import RowTests
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.evidence import without_numbers
from plat_analysis.data.results import Results
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.correlation import MIN_SETTINGS, between
from plat_ragen2.precheck_estimates import Gaining, arrays, measured


@dataclass(frozen=True, kw_only=True)
class Options(Gaining):
    """Hold the options of the claim.

    signals   name -> the measure of the runs with the baseline, e.g. {metric: rollout/rv_std_over_mean, at: 1}
    sign      positive or negative
    """

    signals: Mapping[str, Any]
    sign: Literal["positive", "negative"] = "positive"

    def beforehand(self, results: Results) -> None:
        """Raise SpecError where no signal is named, or the settings are too few or not paired."""
        if not self.signals:
            raise SpecError("signals: none is named", fix="write {NAME: MEASURE}")
        super().beforehand(results)


@takes(Options)
def foretells_gain(results: Results, asked: Options, *, looks: int = 1) -> Verdict:
    """Settings that start with more of each signal gain more from the treatment.

    looks     how often the claim will be judged while runs are added; the error is divided among these looks
    """
    sides, signals = asked.sides(results), asked.signals
    found = measured(sides, {name: quantity(signal) for name, signal in signals.items()}, quantity(asked.outcome))
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
        p, opposite = (rank.above, rank.below) if asked.sign == "positive" else (rank.below, rank.above)
        bounds = f"[{number(rank.low, 2, True)}, {number(rank.high, 2, True)}]"
        line = f"{name}: {number(rank.rho, 2, True)} {bounds} over {rank.settings} starts, p {p_value(p)} (permutation)"
        tested[name] = RowTests(p, opposite, line)
    ids = (run for setting in found.values() for run in setting.gain.run_ids)
    remark = f"{len(found)} settings; those with one base model and task are one start"
    return without_numbers(tested, looks, ids, remark)
