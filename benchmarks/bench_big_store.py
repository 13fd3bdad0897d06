"""A store of 8 million points: the whole report of its runs, and our reader against MLflow's client, which must agree.

    python benchmarks/bench_big_store.py            500 runs x 400 steps x 40 metrics; a few minutes, 3 GB of disk
    python benchmarks/bench_big_store.py --runs 50  a tenth of that

The runs are those of an experiment file with tables, figures and claims of every kind. Their training is made up: a
success that rises, validation instances that agree with it, and noise. The importer's own writer fills the store, so
rows lie on disk as they do after a sweep. `plat report` runs as a command; its memory is the largest that it held.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_reader import equal, read_client, read_ours

from plat.spec.experiment import Experiment, load_experiment
from plat.spec.runs import Run
from plat.store.home import Home
from plat.store.mlflow.record import TABLES, Point, RunRecord, experiment_name
from plat.store.mlflow.sqlite_store import SqliteStore

STEPS, INSTANCES, EVERY = 400, 128, 10  # instances of a validation are logged at each tenth step
SECONDS, GIGABYTES, AIM = 60.0, 2.0, 50  # of the report, and times faster than the client
METRICS = """
actor/clip_fraction actor/entropy actor/grad_norm actor/pg_loss actor/ppo_kl critic/grad_norm critic/value_loss
filter/kept_mass filter/kept_prompts filter/kept_share filter/updates mi/first_turn/h_z_seq mi/first_turn/mi_est
mi/first_turn/retrieval_acc mi/first_turn/retrieval_chance mi/trajectory/h_z_given_x mi/trajectory/mi_est
mi/trajectory/mi_zscore_ema mi/trajectory/recall_at_4 mi/trajectory/recall_at_8 mi/trajectory/retrieval_above_chance
mi/trajectory/retrieval_acc mi/trajectory/retrieval_chance probe/h_z_given_x probe/retrieval_acc probe/retrieval_chance
rollout/entropy rollout/format_valid rollout/reasoning_parses rollout/response_tokens rollout/return_mean
rollout/reward_std rollout/reward_var rollout/rv_std_over_mean rollout/zero_variance_prompts val/format_valid
val/moves_per_turn val/response_tokens val/return val/success
""".split()
SHARES = {f"keep {share}": {"filter": "top_p", "filter.value": share} for share in (0.4, 0.6, 0.8, 0.9, 0.95, 0.98)}
TERMS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
SETTINGS = {
    "no filter": {"filter": "none"},
    **SHARES,
    **{f"KL {size}": {"filter": "none", "algorithm.kl_coef": size} for size in TERMS},
    **{f"entropy {size}": {"filter": "none", "algorithm.entropy_coef": size} for size in (*TERMS[2:], 0.2, 0.3)},
}
COMMON = {"rows": "algorithm", "baseline": "no filter"}
PROXIES = {"retrieval": "probe/retrieval_acc", "H(Z|X)": "mi/trajectory/h_z_given_x", "entropy": "rollout/entropy"}
MEASURES = {"peak": "peak", "final": "final", "length": "rollout/response_tokens"}
PANELS = {"success": "success", "length": "rollout/response_tokens", "norm": "actor/grad_norm", "kept": METRICS[9]}
REPORT = [
    {"builder": "peak_success_table", "pair": "setting", "treatment": "keep 0.9", **COMMON},
    {"builder": "measures_table", "conditions": "setting", "measures": MEASURES, **COMMON},
    {"builder": "metric_panels", "conditions": "setting", "metrics": PANELS, **COMMON},
    {"builder": "learning_curves", "pair": "setting", "columns": "model.base.seed", **COMMON},
    {"builder": "correlations", "conditions": "setting", "rows": "algorithm", "proxies": PROXIES},
    {"builder": "quadrants", "rows": "algorithm"},
]
SIDES = {"pair": "setting", "treatment": "keep 0.9", "columns": "task", "differ_in": ["filter"], **COMMON}
CLAIMS = [
    {"id": "gain", "check": "mean_delta_positive", "measure": "final", **SIDES},
    {
        "id": "order",
        "check": "falls_before",
        "metrics": ["probe/retrieval_acc", "success"],
        "rows": ["algorithm", "setting"],
    },
    {"id": "correlated", "check": "correlated", "conditions": "setting", "rows": "algorithm", "proxies": PROXIES},
    {"id": "trend", "check": "trend", "conditions": "setting", "order": list(SHARES), "rows": "algorithm"},
]


def experiment_file(folder: Path, runs: int) -> Path:
    """Write an experiment file of `runs` runs: 2 algorithms x 25 settings x 2 builds, and as many seeds."""
    axes = {"algorithm": ["ppo", "grpo"], "setting": SETTINGS, "model.base.seed": [0, 1]}
    seeds = max(1, runs // (4 * len(SETTINGS)))
    base = {"task": "sokoban", "model": "qwen2.5-3b", "algorithm.kl_coef": 0.0002, "train.iterations": STEPS}
    content = {"title": "A big store", "base": base, "matrix": {**axes, "seed": list(range(seeds))}}
    claims = [{"says": claim["id"], **claim} for claim in CLAIMS]
    file = folder / "big.yaml"
    file.write_text(json.dumps({**content, "report": REPORT, "claims": claims}))
    return file


def record(run: Run, experiment: Experiment, number: int) -> RunRecord:
    """A finished run of STEPS steps; `number` decides its made-up curves."""
    rng = np.random.default_rng(number)
    rise = rng.uniform(0.2, 0.9) / (1 + np.exp(-(np.arange(STEPS) - rng.uniform(50, 250)) / 40))
    solved = rng.random((STEPS, INSTANCES)) < rise[:, None]
    curves = {key: np.abs(rise * rng.uniform(0, 2) + rng.normal(0, 0.1, STEPS)) for key in METRICS}
    curves["val/success"] = solved.mean(axis=1)
    points = [Point(key, step, float(curves[key][step]), 10**12) for step in range(STEPS) for key in METRICS]
    tables = [
        {"name": "val_instances", "step": step, "data": {"success": solved[step].astype(int).tolist()}}
        for step in range(0, STEPS, EVERY)
    ]
    tags = {"plat.kind": "run", "plat.id": run.id, "plat.name": run.name, "plat.attempt": "1"}
    tags |= {"plat.in.big": "1", "plat.outcome": "finished", "plat.axes": json.dumps(dict(run.axes))}
    lines = "".join(json.dumps(line) + "\n" for line in tables).encode()
    place = experiment_name(experiment.paper, "big", experiment.scale)
    return RunRecord(run.id, run.name, place, ["big"], "x", "FINISHED", 0, 1, {}, tags, points, {TABLES: lines})


def fill(home: Home, experiment: Experiment) -> None:
    """Every run of the experiment into the store of the home."""
    store = SqliteStore(home.store_uri())
    store.connection.execute("PRAGMA synchronous = OFF")  # a store that is thrown away need not survive a power cut
    store.connection.execute("PRAGMA cache_size = -1000000")  # KiB
    for number, run in enumerate(experiment.runs):
        store.write(record(run, experiment, number), None, None)
    store.close()


def report(file: Path, home: Home) -> tuple[float, float]:
    """Seconds of processor time and gigabytes that `plat report` takes. Exits where the report is not whole."""
    command = [sys.executable, "-m", "plat", "report", str(file), "--home", str(home.root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"plat report ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="keep the store here, and use the one that is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        is_there = (folder / "home").exists()
        home = Home(folder / "home").create()
        file = experiment_file(folder, arguments.runs)
        experiment = load_experiment(file)
        if not is_there:
            begin = time.perf_counter()
            fill(home, experiment)
            print(f"{len(experiment.runs)} runs stored in {time.perf_counter() - begin:.0f} s")
        took, memory = report(file, home)
        points = len(experiment.runs) * STEPS * len(METRICS)
        name = f"report of {points:,} points, processor time"
        held = {"name": f"report of {points:,} points, memory", "value": memory, "unit": "GB"}
        figures = [
            {"name": name, "value": took, "unit": "s", "against": f"at most {SECONDS:.0f} s", "ok": took <= SECONDS},
            {**held, "against": f"at most {GIGABYTES:.0f} GB", "ok": memory <= GIGABYTES},
        ]
        frames, ours = read_ours(home, "big", 2)
        place = experiment_name(experiment.paper, "big", experiment.scale)
        histories, client = read_client(home, place, math.ceil(len(experiment.runs) / 10))
        same, ratio = equal(frames, histories), client / ours
        print(f"{len(frames.metrics):,} points, {len(histories):,} histories compared, equal: {same}")
        against = f"at least {AIM} x MLflow's client, {client:.0f} s (from ten runs)"
        figure = {"name": f"read {points:,} points", "value": ours, "unit": "s", "against": against, "ratio": ratio}
        for line in (*figures, {**figure, "ok": same and ratio >= AIM}):
            print("BENCH " + json.dumps(line))


if __name__ == "__main__":
    main()
