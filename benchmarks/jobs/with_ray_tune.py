"""`python with_ray_tune.py run|expand FOLDER JOBS CORES`: a grid of trials of a function with Ray Tune.

`expand` writes the time at which Tune has made every trial, and exits before waiting for any.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_AUTH_MODE", "disabled")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_agent_register_timeout_ms", "300000")  # the default is too short on a busy machine
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")  # a CSV, a JSON and a TensorBoard file for each trial

import ray
from ray import tune


def noop(config: dict[str, Any]) -> dict[str, float]:
    return {"success": 1.0}


class LeaveWhenExpanded(tune.Callback):
    """End the process as soon as every trial exists."""

    def __init__(self, count: int) -> None:
        self.count = count

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if len(trials) >= self.count:
            Path(os.environ["ACCEPTED"]).write_text(str(time.time()))
            ray.shutdown()
            os._exit(0)


def main(mode: str, folder: str, count: int, cores: int) -> None:
    if mode == "expand":
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(count)  # by default Tune makes trials only as resources allow
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False)
    callbacks = [LeaveWhenExpanded(count)] if mode == "expand" else []
    tuner = tune.Tuner(
        noop,
        tune_config=tune.TuneConfig(reuse_actors=True),  # not the default; a process for each trial takes seconds
        param_space={"seed": tune.grid_search(list(range(count)))},
        run_config=tune.RunConfig(storage_path=folder, name="noop", verbose=0, callbacks=callbacks),
    )
    results = tuner.fit()
    assert mode == "run" and results.num_terminated == count and not results.errors
    ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
