"""Error rates of every check on whole stores: experiment file and frames of its runs, through the engine, to a verdict.

A store is drawn for a planted size: 1 as the claim says, -1 the opposite, 0 nothing. Runs of one seed share a level,
as do runs of one build of the base model and, if settings are the units, runs of one setting.

`correlated` is Simpson's paradox: planted between settings, its opposite within them. For `mean_delta_small` nothing is
planted if the change is its bound. `foretells` never shows the opposite. Claims of `SIZED` are also not of this size
if an effect is smaller than 5 points. No effect at all is then no error, so half is planted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray

from plat.spec.expansion.experiment import Experiment, load_experiment
from plat.store.mlflow.frames import Frames
from plat_analysis.claims import check_claims
from plat_analysis.claims.engine import Verdict

Values = Mapping[tuple[str, int], NDArray[np.float64]]  # (metric, step) -> a value for each run, shaped as the axes
Axes = Mapping[str, Sequence[Any]]
FINAL, SUCCESS, PROXY = ("heldout/final_success", 40), "val/success", "probe/retrieval_acc"
ORDERED = ("mi/first_turn/retrieval_acc", PROXY, "probe/fluent")
START = "algorithm.entropy_coef"
REPLICATES: Axes = {"model.base.seed": [0, 1], "seed": range(5)}
UNPAIRED: Axes = {"algorithm": ["ppo", "grpo"], **REPLICATES}
PAIRS: Axes = {"algorithm": ["ppo", "grpo"], "filter": ["none", "top_p"], **REPLICATES}
LINES: Axes = {"algorithm": ["ppo", "grpo"], "filter.value": [0.3, 0.6, 0.9], **REPLICATES}
SETTINGS: Axes = {"filter.value": [0.1 * i for i in range(1, 9)], **REPLICATES}
UNIT_RUNS: Axes = {"algorithm": ["ppo", "grpo"], "filter": ["none", "top_p"], "model.base.seed": [0], "seed": range(8)}
UNIT_TASKS: Axes = {"algorithm": ["ppo", "grpo"], "filter": ["none", "top_p"], START: [0.01 * i for i in range(12)]}
STARTS: Axes = {START: [0.01 * i for i in range(10)], "filter": ["none", "top_p"], "seed": range(5)}
EVALUATED: Axes = {"model.base.seed": [0, 1], "seed": range(6)}
FILTERED = np.array([0.0, 1.0])[None, :, None, None]  # along PAIRS
HELD, REFUTED = ("shown", "shown_in_part"), ("contradicted", "not_of_this_size")


@dataclass(frozen=True)
class Store:
    """A claim and the distribution of its runs.

    values  draws what the runs log, shaped as the axes, for a planted size
    """

    claim: Mapping[str, Any]
    axes: Axes
    values: Callable[[np.random.Generator, float, tuple[int, ...]], Values]

    @cached_property
    def experiment(self) -> Experiment:
        base = {"task": "frozenlake"} | ({} if "filter" in self.axes else {"filter": "top_p"})
        matrix = {axis: list(values) for axis, values in self.axes.items()}
        text = {"title": "t", "base": base, "matrix": matrix, "claims": [{"id": "it", **self.claim}]}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "planted.yaml"
            path.write_text(yaml.safe_dump(text, sort_keys=False), encoding="utf-8")
            return load_experiment(path)

    def frames(self, random: np.random.Generator, planted: float) -> Frames:
        """Return the frames of a store of these runs."""
        values = self.values(random, planted, tuple(map(len, self.axes.values())))
        metrics = [
            (run.id, key, step, float(value))
            for (key, step), drawn in values.items()
            for run, value in zip(self.experiment.runs, drawn.ravel(), strict=True)
        ]
        return frames_of(self.experiment, metrics)

    def verdict(self, frames: Frames) -> Verdict:
        return check_claims(frames, self.experiment)[0]


def frames_of(experiment: Experiment, metrics: Sequence[tuple[str, str, int, float]]) -> Frames:
    """Return the frames of finished runs that logged these (run, metric, step, value), and no tables."""
    runs = [
        {"run_id": run.id, "name": run.name, "mlflow_id": f"m{run.id}", "outcome": "finished", "attempt": 1}
        | {f"axis.{name}": value for name, value in run.axes.items()}
        for run in experiment.runs
    ]
    table = pd.DataFrame(metrics, columns=["run_id", "key", "step", "value"])
    table = table.sort_values(["run_id", "key", "step"]).reset_index(drop=True)
    return Frames(pd.DataFrame(runs), table, pd.DataFrame([], columns=["run_id", "name", "step", "data"]))


def _level(random: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw the success of every run: a part shared by seeds and builds, and a part of each run."""
    shared = random.standard_normal((*(1 for _ in shape[:-2]), *shape[-2:]))
    return np.asarray(0.5 + 0.02 * shared + 0.02 * random.standard_normal(shape))


def _change(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let the filter add 10 points to both algorithms."""
    return {FINAL: _level(random, shape) + 0.10 * planted * FILTERED}


def _small(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let the filter change nothing (planted 1), 5 points, which is the bound (0), or 10 (-1)."""
    return {FINAL: _level(random, shape) + 0.05 * (1 - planted) * FILTERED}


def _larger(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let the filter add 10 points, and 10 more to GRPO."""
    gains = np.array([[0.0, 0.10], [0.0, 0.10 + 0.10 * planted]])[:, :, None, None]
    return {FINAL: _level(random, shape) + gains}


def _grows(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Make retrieval 10 points higher with GRPO."""
    return {(PROXY, 40): _level(random, shape) + 0.10 * planted * np.array([0.0, 1.0])[:, None, None, None]}


def _falls(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let success fall by 5 points from each value to the next."""
    return {FINAL: _level(random, shape) - 0.05 * planted * np.arange(3)[None, :, None, None]}


def _ordered(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Draw three metrics of one run, each lower than the one before."""
    return {(key, 40): _level(random, shape) - 0.05 * planted * place for place, key in enumerate(ORDERED)}


def _above(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Draw success 10 points above the bound of 50."""
    return {FINAL: 0.5 + 0.10 * planted + 0.02 * random.standard_normal(shape)}


def _simpson(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Draw settings that succeed more often with more retrieval, and runs that succeed less often within a setting."""
    levels, own = random.standard_normal((2, shape[0], 1, 1)), random.standard_normal((2, *shape))
    proxy = (levels[0] + 0.3 * own[0]) / 10
    success = (planted * levels[0] + (1 - abs(planted)) * levels[1] + 0.1 * own[1] - 0.3 * planted * own[0]) / 10
    return {(PROXY, 40): 0.5 + proxy, FINAL: 0.5 + success}


def _lead(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Give retrieval at iteration 8 a part of the setting's later level that success at 8 does not have."""
    levels, own = random.standard_normal((3, shape[0], 1, 1)), random.standard_normal((3, *shape))
    early = (levels[0] + 0.3 * own[0]) / 20
    lead = (planted * levels[1] + (1 - abs(planted)) * levels[2] + 0.3 * own[1]) / 20
    return {(SUCCESS, 8): 0.3 + early, (PROXY, 8): 0.5 + lead, FINAL: 0.5 + early + (levels[1] + 0.3 * own[2]) / 20}


def _gain(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let the filter gain more in settings that start with more of the signal."""
    starts, gains = random.standard_normal((2, shape[0], 1))
    signal = np.broadcast_to((1 + 0.3 * starts)[:, None], shape) + 0.02 * random.standard_normal(shape)
    gained = 0.05 * (planted * starts + (1 - abs(planted)) * gains)
    final = 0.5 + gained[:, None] * np.array([0.0, 1.0])[None, :, None] + 0.02 * random.standard_normal(shape)
    return {("rollout/rv_std_over_mean", 1): signal, FINAL: final}


def _sooner(random: np.random.Generator, planted: float, shape: tuple[int, ...]) -> Values:
    """Let retrieval fall four evaluations before success."""
    middle, apart = random.uniform(12, 28, shape), 4 * planted + 2 * random.standard_normal(shape)
    falls = {PROXY: middle, SUCCESS: middle + apart}
    return {
        (key, step): np.where(step < at, 0.8, 0.2) + 0.05 * random.standard_normal(shape)
        for key, at in falls.items()
        for step in range(40)
    }


BY_FILTER = {"rows": "algorithm", "columns": "filter", "metric": PROXY, "builds": "fixed"}
FINAL_CHANGE = {"rows": "algorithm", "columns": "task.name", "measure": "final", "builds": "fixed"}
MEASURES = {"rows": "algorithm", "measures": {key: key for key in ORDERED}}
PROXIES = {"conditions": "filter.value", "proxies": {"retrieval": PROXY}}
SIGNALS = {"signals": {"Std/Mean": {"metric": "rollout/rv_std_over_mean", "at": 1}}}
LEADS = {"conditions": "filter.value", "metrics": {"retrieval": PROXY}, "at": 8}
ORDER = {"conditions": "filter.value", "order": [0.3, 0.6, 0.9], "rows": "algorithm"}
LEVEL = {"measure": "final", "rows": "algorithm", "bound": 50}
WITHIN = {"across": "within", "sign": "negative", **PROXIES}
STORES: dict[str, Store] = {
    "mean_delta_positive": Store({"check": "mean_delta_positive", **FINAL_CHANGE}, PAIRS, _change),
    "mean_delta_positive, runs": Store(
        {"check": "mean_delta_positive", "units": "runs", **FINAL_CHANGE}, UNIT_RUNS, _change
    ),
    "mean_delta_positive, tasks": Store(
        {"check": "mean_delta_positive", "units": "tasks", **FINAL_CHANGE, "columns": START},
        {**UNIT_TASKS, "seed": range(3)},
        _change,
    ),
    "mean_delta_small": Store({"check": "mean_delta_small", **FINAL_CHANGE}, PAIRS, _small),
    "delta_larger": Store({"check": "delta_larger", "row": "grpo", "than": "ppo", **FINAL_CHANGE}, PAIRS, _larger),
    "increasing": Store({"check": "increasing", **BY_FILTER}, PAIRS, _grows),
    "trend": Store({"check": "trend", **ORDER}, LINES, _falls),
    "trend_over_measures": Store({"check": "trend_over_measures", **MEASURES}, UNPAIRED, _ordered),
    "level": Store({"check": "level", **LEVEL}, UNPAIRED, _above),
    "correlated": Store({"check": "correlated", **PROXIES}, SETTINGS, _simpson),
    "correlated, within": Store({"check": "correlated", **WITHIN}, SETTINGS, _simpson),
    "foretells": Store({"check": "foretells", **LEADS}, SETTINGS, _lead),
    "foretells_gain": Store({"check": "foretells_gain", "settings": START, **SIGNALS}, STARTS, _gain),
    "falls_before": Store({"check": "falls_before", "metrics": [PROXY, "success"]}, EVALUATED, _sooner),
}
NO_OPPOSITE = ("foretells",)
SIZED = ("mean_delta_positive", "mean_delta_positive, runs", "mean_delta_positive, tasks", "delta_larger", "increasing")


def words(name: str, planted: float, stores: int) -> list[str]:
    """Return the verdicts on `stores` simulated stores."""
    store, random = STORES[name], np.random.default_rng([15, list(STORES).index(name), int(2 * planted) + 2])
    return [store.verdict(store.frames(random, planted)).status for _ in range(stores)]


def share(found: Sequence[str], statuses: Sequence[str]) -> float:
    return sum(word in statuses for word in found) / len(found)


def lines(stores: int) -> Iterator[str]:
    yield "whole stores through every check; promised: at most .025 in the first two columns"
    yield "check                held of nothing   refuted wrongly   held of what is planted   refuted of its opposite"
    for name in STORES:
        nothing, planted, opposite = (words(name, size, stores) for size in (0, 1, -1))
        wrongly = share(words(name, 0.5, stores) if name in SIZED else nothing, REFUTED)
        against = "-" if name in NO_OPPOSITE else f"{share(opposite, REFUTED):.3f}"
        yield f"{name:20} {share(nothing, HELD):15.3f} {wrongly:17.3f} {share(planted, HELD):25.3f} {against:>25}"
