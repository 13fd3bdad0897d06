"""Describe the public runs of RAGEN-2 in numbers that no builder of a report has: they are about these 25 runs alone.

Runs share models and algorithms, so these numbers have no interval, but for the one over the twelve pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata, sem, t

import plat
from plat_rl.pruner import CHANCE, ENTROPY, RETRIEVAL, SPEC, VALID, collapse_seen

SUCCESS, LENGTH, VALIDITY = "val-env/CoordSokoban/success", "response_length/mean", "collapse/valid_thinking_rate"
SAMPLE = "collapse_{}_sample/"
PROXIES = {"MI": "mi_estimate", "retrieval": "retrieval_accuracy", "retrieval above chance": "retrieval_above_chance"}
PROXIES["entropy"] = "conditional_entropy_est"
# what the pruner `retrieval` reads -> the authors' name for it
NAMES = {RETRIEVAL: "retrieval_accuracy", CHANCE: "retrieval_chance_level", ENTROPY: "conditional_entropy_est"}
FIRST = SAMPLE.format("first_turn")
READ = {name: FIRST + own for name, own in NAMES.items()} | {VALID: "collapse/first_turn_num_valid"}
BEST = 5
Curves = dict[str, dict[int, float]]  # metric -> step -> value


def described(file: str, home: str) -> dict[str, list[float]]:
    """Return the name of each number -> the number, of the runs of an experiment file in a home.

    without success  how many runs end with a success of 0
    fewest validations, most validations, shortest, longest  of a run: its validations, and its last step
    peak gain      the filter's mean gain in the peak, in points, where both runs of a pair count as many validations
                   as the shorter one has; with Student's t interval (95 %) over the pairs
    runs, longer   how many runs, and how many whose last fifth of steps has longer responses than the first fifth
    stopped        runs that the pruner `retrieval` would stop, by its own numbers, on the first turn
    best stopped   those among the BEST runs with most success at the end
    NAME, NAME given validity  Spearman's correlation with success at the end, and the one of ranks given those of
                               validity (partial), for each of PROXIES; `validity given NAME`: the other way round
    """
    frames = plat.load(file, home=home)
    metrics = frames.metrics.sort_values(["run_id", "key", "step"])
    runs: dict[str, Curves] = {}
    for row in metrics.itertuples():
        runs.setdefault(str(row.run_id), {}).setdefault(str(row.key), {})[int(row.step)] = float(row.value)
    every = list(runs.values())
    ends = {name: [_end(run[key]) for run in every] for name, key in {"success": SUCCESS, "validity": VALIDITY}.items()}
    ends |= {name: [_end(run[SAMPLE.format("trajectory") + key]) for run in every] for name, key in PROXIES.items()}
    stopped = [_is_stopped({name: run.get(key, {}) for name, key in READ.items()}) for run in every]
    best = sorted(range(len(every)), key=lambda at: -ends["success"][at])[:BEST]
    counts, steps = [len(run[SUCCESS]) for run in every], [max(map(max, run.values())) for run in every]
    found: dict[str, Any] = {
        "runs": len(every),
        "without success": sum(success == 0 for success in ends["success"]),
        "fewest validations": min(counts),
        "most validations": max(counts),
        "shortest": min(steps),
        "longest": max(steps),
        "peak gain": _peak_gain(frames.runs, runs),
        "longer": sum(_is_longer(list(run[LENGTH].values())) for run in every),
        "stopped": sum(stopped),
        "best stopped": sum(stopped[at] for at in best),
    }
    for name in PROXIES:
        found[name] = _partial(ends[name], ends["success"], None)
        found[f"{name} given validity"] = _partial(ends[name], ends["success"], ends["validity"])
        found[f"validity given {name}"] = _partial(ends["validity"], ends["success"], ends[name])
    return {name: [round(float(value), 6) for value in np.atleast_1d(values)] for name, values in found.items()}


def _end(curve: dict[int, float]) -> float:
    return list(curve.values())[-1]


def _peak_gain(table: Any, runs: dict[str, Curves]) -> list[float]:
    pairs: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in table.to_dict("records"):
        place = pairs.setdefault((row["axis.size"], row["axis.algorithm"]), {})
        place[row["axis.filter"]] = list(runs[row["run_id"]][SUCCESS].values())
    shortest = {place: min(len(curves["on"]), len(curves["off"])) for place, curves in pairs.items()}
    gains = [100 * (max(c["on"][: shortest[p]]) - max(c["off"][: shortest[p]])) for p, c in pairs.items()]
    return [float(np.mean(gains)), *t.interval(0.95, len(gains) - 1, np.mean(gains), sem(gains))]


def _is_longer(lengths: list[float]) -> bool:
    fifth = max(1, len(lengths) // 5)
    return float(np.mean(lengths[-fifth:])) > float(np.mean(lengths[:fifth]))


def _is_stopped(curves: Curves) -> bool:
    return any(collapse_seen(curves, step, SPEC.options) for step in curves[RETRIEVAL])


def _partial(one: list[float], other: list[float], given: list[float] | None) -> float:
    """Return the correlation of the ranks of two lists, of what a line through the ranks of a third leaves of them."""
    known = np.column_stack([np.ones(len(one)), *([rankdata(given)] if given is not None else [])])
    left = [ranks - known @ np.linalg.lstsq(known, ranks, rcond=None)[0] for ranks in (rankdata(one), rankdata(other))]
    return float(np.corrcoef(*left)[0, 1])
