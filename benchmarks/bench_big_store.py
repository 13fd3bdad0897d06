"""Time the report of a store of 8 million points.

    python benchmarks/bench_big_store.py            500 runs x 400 steps x 40 metrics; a few minutes, 1 GB of disk
    python benchmarks/bench_big_store.py --runs 50  a tenth of that

The experiment file has tables, figures and claims of many kinds. The runs are simulated: a rising success, validation
instances that agree with it, and noise. The importer's own writer fills the store. `plat report` runs as a command; its
memory is the peak.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from bench_reader import record, written
from measuring import cost, figure, options, plat

from plat.spec.expansion.experiment import load_experiment
from plat.spec.expansion.run import Run
from plat.store.home import Home
from plat.store.mlflow.run_record import RunRecord
from plat.store.run_directory.history import Metric, Table

STEPS, INSTANCES, EVERY = 400, 128, 10  # validation instances are logged at each tenth step
SECONDS, GIGABYTES = 60, 2  # limits of the report
PROBE, LENGTH, NORM, KEPT = "probe/retrieval_acc", "rollout/response_tokens", "actor/grad_norm", "filter/kept_share"
PROXIES = {"retrieval": PROBE, "H(Z|X)": "mi/trajectory/h_z_given_x", "entropy": "rollout/entropy"}
BUBBLES = ("rollout/format_valid", "mi/trajectory/mi_est", "rollout/reward_var")  # of the quadrants
OTHERS = (f"mi/first_turn/key_{number:02d}" for number in range(30))
METRICS = [*PROXIES.values(), LENGTH, NORM, KEPT, "val/success", *BUBBLES, *OTHERS]
SHARES = {f"keep {share}": {"filter": "top_p", "filter.value": share} for share in (0.4, 0.6, 0.8, 0.9, 0.95, 0.98)}
TERMS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
SETTINGS = {
    "no filter": {"filter": "none"},
    **SHARES,
    **{f"KL {size}": {"filter": "none", "algorithm.kl_coef": size} for size in TERMS},
    **{f"entropy {size}": {"filter": "none", "algorithm.entropy_coef": size} for size in (*TERMS[2:], 0.2, 0.3)},
}
COMMON = {"rows": "algorithm", "baseline": "no filter"}
MEASURES = {"peak": "peak", "final": "final", "length": LENGTH}
PANELS = {"success": "success", "length": LENGTH, "norm": NORM, "kept": KEPT}
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
    {"id": "order", "check": "falls_before", "metrics": [PROBE, "success"], "rows": ["algorithm", "setting"]},
    {"id": "correlated", "check": "correlated", "conditions": "setting", "rows": "algorithm", "proxies": PROXIES},
    {"id": "trend", "check": "trend", "conditions": "setting", "order": list(SHARES), "rows": "algorithm"},
]


def experiment_file(folder: Path, runs: int) -> Path:
    """Write an experiment file of about `runs` runs: 2 algorithms x 25 settings x 2 builds x seeds."""
    axes = {"algorithm": ["ppo", "grpo"], "setting": SETTINGS, "model.base.seed": [0, 1]}
    seeds = max(1, runs // (4 * len(SETTINGS)))
    base = {"task": "sokoban", "model": "qwen2.5-3b", "algorithm.kl_coef": 0.0002, "train.iterations": STEPS}
    claims = [{"says": claim["id"], **claim} for claim in CLAIMS]
    content = {"title": "A big store", "base": base, "matrix": {**axes, "seed": list(range(seeds))}}
    file = folder / "big.yaml"
    file.write_text(json.dumps({**content, "report": REPORT, "claims": claims}))
    return file


def simulated(run: Run, number: int) -> RunRecord:
    """Return a finished run of STEPS steps with simulated curves, random with seed `number`."""
    rng = np.random.default_rng(number)
    rise = rng.uniform(0.2, 0.9) / (1 + np.exp(-(np.arange(STEPS) - rng.uniform(50, 250)) / 40))
    solved = rng.random((STEPS, INSTANCES)) < rise[:, None]
    curves = {key: np.abs(rise * rng.uniform(0, 2) + rng.normal(0, 0.1, STEPS)) for key in METRICS}
    curves["val/success"] = solved.mean(axis=1)
    points = [Metric(key, step, float(curves[key][step]), 1e9) for step in range(STEPS) for key in METRICS]
    tables = [
        Table("val_instances", step, {"success": solved[step].astype(int).tolist()}, 1e9)
        for step in range(0, STEPS, EVERY)
    ]
    tags = {"plat.id": run.id, "plat.name": run.name, "plat.attempt": "1", "plat.in.big": "1"}
    return record(number, points, {}, tags, tables)


def main() -> None:
    parser = options(__doc__, runs=500)
    parser.add_argument("--folder", type=Path, help="keep the store here, and use the one that is there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        is_there = (folder / "home").exists()
        home = Home(folder / "home").create()
        file = experiment_file(folder, arguments.runs)
        experiment = load_experiment(file)
        runs = len(experiment.runs)
        if not is_there:
            begin = time.perf_counter()
            written(home, (simulated(run, number) for number, run in enumerate(experiment.runs)))
            print(f"{runs} runs stored in {time.perf_counter() - begin:.0f} s")
        took, memory = cost(plat("report", file, home=home.root))
        name, gigabytes = f"report of {runs * STEPS * len(METRICS):,} points", memory / 1e9
        figure(f"{name}, processor time", took, "s", f"at most {SECONDS} s", ok=took <= SECONDS)
        figure(f"{name}, memory", gigabytes, "GB", f"at most {GIGABYTES} GB", ok=gigabytes <= GIGABYTES)


if __name__ == "__main__":
    main()
