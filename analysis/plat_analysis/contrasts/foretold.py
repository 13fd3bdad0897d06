"""What a metric at an iteration tells of an outcome beyond another metric there, over the settings of a row."""

from __future__ import annotations

from plat.errors import SpecError
from plat_analysis.contrasts.settings import Settings
from plat_analysis.quantities.metric import quantity
from plat_analysis.quantities.quantity import Quantity
from plat_analysis.statistics.foretelling import Foretold, foretell


def foretold(settings: Settings, metric: str, known: str, at: int, outcome: Quantity) -> Foretold | str:
    """What a metric adds at an iteration, or why that cannot be said. Both are the last ones measured by then."""
    pairs = [settings.pair(quantity({"metric": name, "at": at}), outcome) for name in (metric, known)]
    for pair in pairs:
        if not pair.complete:
            return pair.note
    return foretell(pairs[0].x, pairs[1].x, pairs[0].y)


def check_steps(name: str, steps: object) -> None:
    """SpecError where these are no training iterations."""
    given = steps if isinstance(steps, list | tuple) else [steps]
    if not given or not all(isinstance(step, int) and not isinstance(step, bool) and step >= 0 for step in given):
        raise SpecError(f"{name}: {steps!r} is no training iteration", mend=f"write {name}: 8")
