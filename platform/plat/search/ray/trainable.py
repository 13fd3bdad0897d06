"""What a trial of Tune executes in a search: the runs of one trial, whose curve it reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from plat.dispatch.ray.trial import execute_task
from plat.errors import SpecError
from plat.search.search_settings import Chosen, Objective
from plat.search.trial_curve import Diverged, TrialCurve
from plat.store.coordination.submissions import Submission
from plat.store.home import Home
from plat.store.run_directory.run_files import read_result

POSITION, STOP, FAIL = "position", "stop", "failed"  # in a result: where, why plat stops the trial, why it has failed
ITERATIONS = "iterations"  # in a result: of training, over all seeds so far
TRIAL = "trial"  # in the config: the number of the study's trial, None if it is not judged


def execute_trial(config: Mapping[str, Any]) -> None:
    """Execute the runs of a trial, one after another, and report each evaluation: the trainable.

    config  that of `plat.dispatch.ray.trial.execute`; TRIAL; "axes", for Tune's own tools; "curve", the arguments of
            `results`
    """
    home = Submission(Path(config["submission"])).home
    new = results(home, **config["curve"])
    execute_task(config, lambda: next(new))


def results(
    home: Home, runs: Mapping[str, str], objective: Mapping[str, Any], pruner: Mapping[str, Any], iterations: int
) -> Iterator[list[dict[str, Any]]]:
    """Yield, without end, the results that are new: the objective under its name, the position, the step and the run.

    runs       run id -> name, in the order of the seeds; those that were done before, too
    objective  the fields of an `Objective`; `pruner` those of a `Chosen`

    A result may also say why the trial is to stop (a RunPruner), or why it has failed.
    """
    aim = Objective(**objective)
    curve = TrialCurve(home, runs, [aim], Chosen(**pruner), iterations)
    while True:
        done = {run_id for run_id in runs if read_result(home.run(run_id)) is not None}
        new: list[dict[str, Any]] = []
        try:
            for point in curve.new(done):
                value = {} if point.value is None else {aim.metric: point.value}
                stop = {STOP: point.stop} if point.stop else {}
                place = {POSITION: point.position, ITERATIONS: curve.seen_iterations(), "step": point.step}
                new.append({**value, **place, "run": point.run_id, **stop})
        except Diverged as error:
            new.append({FAIL: error.what})
        except SpecError:  # an earlier seed has not logged the objective: the driver says so when the runs are done
            pass
        yield new
