"""Whether a metric at an iteration predicts the outcome of settings not yet seen, beyond what is known then.

The test is by permutation and by flips of signs (`statistics.foretelling`). The opposite, that a metric foretells
nothing, is never shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from plat.errors import SpecError
from plat_analysis.artifact import number, p_value
from plat_analysis.claims.decided import RowTests, decide
from plat_analysis.claims.engine import Verdict
from plat_analysis.contrasts.foretold import check_steps, foretold
from plat_analysis.contrasts.settings import settings_of
from plat_analysis.data.runs import SUCCESS, Results
from plat_analysis.facets import AxisNames
from plat_analysis.options import checked_by
from plat_analysis.quantities.metric import quantity
from plat_analysis.statistics.intervals import MIN_JUDGED

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames


def _beforehand(
    results: Results,
    *,
    conditions: str | Sequence[str],
    metrics: Mapping[str, str],
    at: int,
    rows: AxisNames = None,
    **_: Any,
) -> None:
    """SpecError where there are too few settings, no metric, or no iteration."""
    if not metrics:
        raise SpecError("metrics: none is named", mend="write {NAME: METRIC}, e.g. {retrieval: probe/retrieval_acc}")
    check_steps("at", at)
    settings_of(results, conditions, rows)


@checked_by(_beforehand)
def foretells(
    frames: Frames,
    experiment: Experiment,
    *,
    conditions: str | Sequence[str],
    metrics: Mapping[str, str],
    at: int,
    outcome: Any = "final",
    known: str = SUCCESS,
    rows: AxisNames = None,
    looks: int = 1,
) -> Verdict:
    """Each metric, beside what is known, predicts the outcome of a left out setting better than that alone does.

    conditions  the axis, or list of axes, whose values are the settings
    metrics     printed name -> metric
    at          the iteration: metrics count as last measured by then
    outcome     what is predicted of a run (see `plat_analysis.quantities.metric`)
    known       the metric beyond which they foretell it
    rows        axes that make the rows (default: one row)
    looks       how often the claim is going to be judged while runs are added; the error is divided among these looks
    """
    of_rows = settings_of(Results.of(frames, experiment), conditions, rows)
    tested = {}
    for row, settings in of_rows.items():
        for shown, metric in metrics.items():
            name = ", ".join(filter(None, [row, shown]))
            if settings.replicates < MIN_JUDGED:
                few = f"{settings.replicates} runs a setting, {MIN_JUDGED} are needed"
                tested[name] = RowTests(None, None, f"{name} ({few})")
                continue
            found = foretold(settings, metric, known, at, quantity(outcome))
            if isinstance(found, str):
                tested[name] = RowTests(None, None, f"{name} ({found})")
                continue
            line = (
                f"{name} at {at}: {number(found.with_it, 2)} of the outcome is predicted with it, "
                f"{number(found.without, 2)} without, p {p_value(found.p)} (permutation and sign flips), "
                "a setting left out each time"
            )
            tested[name] = RowTests(found.p, 1.0, line)
    decision = decide(tested, looks)
    ids = dict.fromkeys(run for settings in of_rows.values() for run in settings.run_ids)
    lines = (*decision.lines, "about these builds of the base model, over settings like these")
    return Verdict(decision.status, None, "; ".join(lines), tuple(ids), lines=lines, p=decision.p)


FORETELLS = foretells
