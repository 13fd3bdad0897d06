"""Name and tell what belongs beside a retrieval accuracy: its chance level, and the valid reasonings it rests on.

An accuracy is measured on valid reasonings alone. Where its candidates are their own prompts, its chance level rises
while they become few, so an accuracy alone can rise as a policy gets worse. Names of two sources are known:

    mi/SCOPE/retrieval_acc, probe/retrieval_acc[/LEVEL]      retrieval_chance          valid_reasonings (a count)
    collapse_SCOPE/retrieval_accuracy (RAGEN's code)         retrieval_chance_level    collapse/valid_thinking_rate

Runs that lack one of them show nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from plat_analysis.artifact import number
from plat_analysis.data.labels import label
from plat_analysis.data.results import Results, RunView

OWN, OTHERS = "/retrieval_acc", "/retrieval_accuracy"
VALID_RATE = "collapse/valid_thinking_rate"


def chance_of(metric: str) -> str | None:
    """Return the metric of the chance level of a retrieval accuracy; None for any other metric."""
    if metric.endswith(OTHERS):
        return metric.removesuffix(OTHERS) + "/retrieval_chance_level"
    place, found, level = metric.partition(OWN)
    return f"{place}/retrieval_chance" if found and (not level or level.startswith("/")) else None


def valid_of(metric: str) -> str | None:
    """Return the metric of the valid reasonings of a retrieval accuracy; None for any other metric.

    It is a count, or the share `collapse/valid_thinking_rate` in runs of RAGEN's code.
    """
    if chance_of(metric) is None:
        return None
    return VALID_RATE if metric.endswith(OTHERS) else metric.partition(OWN)[0] + "/valid_reasonings"


def beside(results: Results, runs: Iterable[RunView], metrics: Iterable[str]) -> list[str]:
    """Return a sentence for each retrieval accuracy among the metrics, with what the runs logged beside it.

    Two numbers are the smallest and the largest over runs and steps: `Chance of NAME: 0.125 to 0.5, measured on 4 to 64
    valid reasonings.` An accuracy beside which nothing was logged has no sentence.
    """
    ids = [run.id for run in runs]
    sentences = []
    for metric in dict.fromkeys(metrics):
        chance, valid = chance_of(metric), valid_of(metric)
        if chance is None or valid is None:
            continue
        level, counts = _extent(results, ids, chance, 3), _extent(results, ids, valid, 2 if valid == VALID_RATE else 0)
        parts = [f"chance {level}"] if level else []
        if counts:
            share = valid == VALID_RATE
            parts.append(f"share of valid reasonings {counts}" if share else f"measured on {counts} valid reasonings")
        if parts:
            sentences.append(f"{label(metric)}: {', '.join(parts)}.")
    return sentences


def _extent(results: Results, ids: Sequence[str], metric: str, digits: int) -> str:
    """Return `0.125`, or `0.125 to 0.25` over all runs and steps; "" if no run logged the metric."""
    values = [values for each in ids if len(values := results.curve(each, metric)[1])]
    if not values:
        return ""
    everything = np.concatenate(values)
    if not np.isfinite(everything).any():
        return ""
    everything = everything[np.isfinite(everything)]
    return " to ".join(dict.fromkeys(number(float(end(everything)), digits) for end in (np.min, np.max)))
