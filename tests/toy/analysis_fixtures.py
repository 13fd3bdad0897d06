"""Synthetic experiments and frames in the shape the reader gives: known truths, every kind of hole on request."""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from plat.spec.expansion.experiment import Experiment
from plat.spec.expansion.run import Run
from plat.store.mlflow.frames import Frames

ROWS = [
    "PPO",
    "DAPO",
    "GRPO",
    "Dr. GRPO",
    "Qwen2.5-0.5B",
    "Qwen2.5-1.5B",
    "Qwen2.5-7B",
    "Qwen2.5-3B-Instruct",
    "Llama3.2-3B",
]
TASKS = ["sokoban", "frozenlake", "metamathqa", "countdown"]
PRINTED = {
    "PPO": [[12.9, 16.0], [67.0, 10.9], [92.6, 0.6], [97.9, 0.0], [67.6, 6.9]],
    "DAPO": [[16.2, 5.1], [66.8, 2.1], [90.8, 2.8], [95.7, 1.6], [67.4, 2.9]],
    "GRPO": [[12.1, 9.0], [70.9, -3.0], [91.2, 1.2], [95.7, 2.2], [67.5, 3.7]],
    "Dr. GRPO": [[12.1, -0.4], [23.2, 0.6], [91.2, 1.4], [96.5, 1.4], [55.8, 0.8]],
    "Qwen2.5-0.5B": [[3.3, 22.9], [19.5, 0.0], [10.0, -0.2], [23.0, -0.7], [14.0, 5.5]],
    "Qwen2.5-1.5B": [[17.0, 6.2], [36.5, 1.6], [80.3, 7.0], [56.6, 1.6], [47.6, 4.1]],
    "Qwen2.5-7B": [[42.4, 4.9], [85.0, -0.6], [84.0, 11.7], [97.7, 0.3], [77.3, 4.1]],
    "Qwen2.5-3B-Instruct": [[22.5, 14.2], [83.6, 2.3], [91.2, 0.4], [96.3, -0.6], [73.4, 4.1]],
    "Llama3.2-3B": [[24.4, 18.8], [84.6, -0.2], [86.1, 3.7], [99.2, -1.2], [73.6, 5.3]],
}
PAPER = {
    "tables": {
        "table4": {
            "columns": TASKS,
            "rows": {
                row: {
                    **dict(zip([*TASKS, "average"], cells, strict=True)),
                    "section": "Algorithm (Qwen2.5-3B)" if i < 4 else "Scale (PPO)" if i < 7 else "Type (PPO)",
                }
                for i, (row, cells) in enumerate(PRINTED.items())
            },
        }
    },
    "discrepancies": [
        {
            "topic": "GRPO on FrozenLake",
            "paper": "−3.0 printed",
            "repo": "+2.3, which alone fits the printed average",
            "artifacts": ["table4"],
            "cell": ["GRPO", "frozenlake"],
        },
        {"topic": "Score", "paper": "reward variance", "repo": "standard deviation, ddof 1", "artifacts": ["table4"]},
        {"topic": "Search reward", "paper": "x", "repo": "y", "artifacts": ["table99"]},
    ],
}


def run_id(axes: dict) -> str:
    return hashlib.sha256(repr(sorted(axes.items())).encode()).hexdigest()[:16]


def synthetic_experiment(
    rows=ROWS, tasks=TASKS, filters=("none", "top_p"), seeds=(0,), builds=None, **fields
) -> Experiment:
    """The matrix of Table 4, or a part of it; `builds` adds the axis of the base model's builds."""
    runs = []
    for row, task, rule, build, seed in itertools.product(rows, tasks, filters, builds or [None], seeds):
        axes = {"variant": row, "task": task, "filter": rule, "seed": seed}
        if build is not None:
            axes["model.base.seed"] = build
        name = f"{task}-{row.lower().replace(' ', '-')}-{rule}-s{seed}-{run_id(axes)[:8]}"
        config = {
            "seed": seed,
            "task": {"name": task},
            "filter": {"name": rule},
            "model": {
                "name": "qwen2.5-3b",
                "paper_name": "Qwen2.5-3B",
                "path": None,
                "shape": {"layers": 2},
                "base": {"seed": build or 0},
            },
            "eval": {"instances": 256, "heldout": 256},
        }
        runs.append(
            Run(id=run_id(axes), name=name, axes=axes, trainer="embedded", config=config, prepare=None, resources={})
        )
    axes = {"variant": list(rows), "task": list(tasks), "filter": list(filters), "seed": list(seeds)}
    if builds is not None:
        axes["model.base.seed"] = list(builds)
    defaults = {
        "name": "table4",
        "path": Path("experiments/table4.yaml"),
        "title": "Peak validation success with and without SNR-aware filtering",
        "paper": "ragen2",
        "source": "Table 4",
        "report": [],
        "claims": [],
        "axes": axes,
        "runs": runs,
        "paper_data": PAPER,
        "scale": "laptop",
        "cells": [(run.axes, run.id) for run in runs],
    }
    return Experiment(**(defaults | fields))


def synthetic_frames(experiment, *, steps=60, every=10, holes=None, effect=0.06, collapse=True, instances=256):
    """Frames in which success rises from .3 to about .6 and the filter adds `effect`.

    holes: run id -> outcome (`failed:oom`, None for unfinished, "absent" for no row, `stopped:low_success`).
    """
    holes = holes or {}
    runs, metrics, tables = [], [], []
    for index, run in enumerate(experiment.runs):
        outcome = holes.get(run.id, "finished")
        if outcome == "absent":
            continue
        rng = np.random.default_rng([7, index])
        filtered = run.axes.get("filter", run.axes.get("filter.value", 1.0)) not in ("none", 1.0)
        axes = {f"axis.{name}": value for name, value in run.axes.items()}
        runs.append(
            {
                "run_id": run.id,
                "name": run.name,
                "mlflow_id": "m" + run.id,
                "outcome": outcome,
                "attempt": 1,
                **axes,
                "tag.plat.summary.parameters": "105344",
                "tag.plat.summary.model_really": "stand-in for Qwen2.5-3B",
                "tag.plat.summary.vocabulary": "37",
            }
        )
        last = steps if outcome == "finished" else steps // 2
        task_ease = {"sokoban": 0.15, "frozenlake": 0.5, "metamathqa": 0.7, "countdown": 0.8}.get(
            run.axes.get("task"), 0.4
        )
        strength = np.random.default_rng([3, hash_seed(run.axes.get("task", ""))]).random(instances)

        def log(step, run=run, **values):
            metrics.extend((run.id, key.replace("__", "/"), step, float(value)) for key, value in values.items())

        for step in range(0, last + 1, every):
            share = step / steps
            p = task_ease * (0.4 + 0.5 * min(1, 2 * share)) + effect * filtered * share
            success = (strength + 0.15 * rng.standard_normal(instances) < p).astype(int)
            log(step, val__success=success.mean(), val__return=2 * success.mean(), val__moves_per_turn=1.0)
            lists = {"success": success.tolist(), "turns": [4] * instances, "moves": [4] * instances}
            tables.append((run.id, "val_instances", step, lists))
            retrieval = 0.85 - collapse * (0.15 if filtered else 0.71) * share
            tables.append((run.id, "probe", step, probe_data(rng, retrieval)))
        for step in range(1, last + 1, 5):
            share = step / steps
            gone = collapse * (0.2 if filtered else 0.75) * share
            log(
                step,
                mi__first_turn__retrieval_acc=np.clip(0.9 - gone + 0.05 * rng.standard_normal(), 0, 1),
                mi__first_turn__retrieval_chance=0.125,
                mi__first_turn__h_z_given_x=1.2
                + (0.7 if not filtered else -0.2) * share
                + 0.05 * rng.standard_normal(),
                rollout__reasoning_parses=0.96 + 0.01 * rng.standard_normal(),
            )
        for step in range(1, last + 1):
            log(step, actor__entropy=1.0 + 0.4 * step / steps * (not filtered) + 0.03 * rng.standard_normal())
        base = (strength + 0.1 * rng.standard_normal(instances) < task_ease * 0.4).astype(int)
        peak = (strength + 0.1 * rng.standard_normal(instances) < p).astype(int)
        log(0, heldout__base_success=base.mean())
        tables.append((run.id, "heldout_instances", 0, {"success": base.tolist(), "role": "base"}))
        log(last, heldout__success=peak.mean())
        tables.append(
            (run.id, "heldout_instances", last, {"success": peak.tolist(), "role": "peak", "peak_step": last})
        )
        final = (strength + 0.1 * rng.standard_normal(instances) < p).astype(int)
        log(last, heldout__final_success=final.mean())
        tables.append((run.id, "heldout_final", last, {"success": final.tolist(), "role": "final"}))
    columns = ["run_id", "key", "step", "value"]
    return Frames(
        runs=pd.DataFrame(runs, columns=None if runs else ["run_id", "name", "outcome"]),
        metrics=pd.DataFrame(metrics, columns=columns).sort_values(columns[:3]).reset_index(drop=True),
        tables=pd.DataFrame(tables, columns=["run_id", "name", "step", "data"]),
    )


def probe_data(rng, retrieval, *, blocks=64, size=8, fluent=0.97, entropy=1.4):
    """A probe as a trainer logs it, of a policy with that retrieval accuracy."""
    return {
        "block_size": size,
        "hits": rng.binomial(size, retrieval, blocks).tolist(),
        "fluent": rng.binomial(size, fluent, blocks).tolist(),
        "h_z_given_x": (entropy + 0.1 * rng.standard_normal(blocks)).tolist(),
    }


def hash_seed(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


@pytest.fixture
def make_experiment():
    return synthetic_experiment


@pytest.fixture
def make_frames():
    return synthetic_frames


@pytest.fixture
def make_probe():
    return probe_data
