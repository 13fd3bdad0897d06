"""The program that holds the Tuner: `python -m plat.dispatch.ray.driver SUBMISSION ATTEMPT`, started by Ray's Jobs API.

Its trials are the tasks of the submission that are not over. It ends when all of them are.

`python -m plat.dispatch.ray.driver --private JOBS SECONDS` starts a private Ray, which has so many seconds for it, and
prints its facts (a `cluster.Cluster` as JSON). It reads folders of submissions from standard input, one a line. When
that is closed, the runs save and stop, and the private Ray ends.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plat.dispatch.ray.cluster import Cluster
from plat.dispatch.ray.jobs import tune_folder
from plat.dispatch.ray.ray_settings import LOCAL
from plat.dispatch.ray.trial import STOP
from plat.processes import identification
from plat.processes.cores import usable_cores
from plat.store.coordination.submissions import Submission
from plat.trainer.private_ray import private_ray
from plat.words.outcomes import INTERRUPTED

OBJECT_STORE = 80 * 2**20  # bytes; plat stores no objects in it
SETTINGS = {  # of Ray and of Tune, unless the user has set them
    "RAY_AIR_NEW_OUTPUT": "0",  # Tune prints nothing
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a private Ray hides no GPU from a trial without one
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_MAX_PENDING_TRIALS_PG": "200",  # a trial that waits for a node does not hold up the others
}


def of_a_job(folder: Path, attempt: int) -> None:
    """Execute the tasks of one submission on the cluster whose job this process is."""
    import ray

    from plat.dispatch.ray.tuner import Tasks, run_trials

    submission, tasks = Submission(folder), Tasks()
    ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    tasks.add(submission)
    tasks.add(None)
    run_trials(tasks, tune_folder(submission, attempt), submission.facts().get("jobs"))


def of_a_command(jobs: int | None, within: float) -> None:
    """Start a private Ray and execute the tasks of the submissions that the command writes to standard input."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the command decides what Ctrl-C means
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with private_ray(nodes=1), _started(within):  # before Ray is imported
        import ray

        from plat.dispatch.ray.tuner import Tasks, run_trials

        head = next(node for node in ray.nodes() if node["Alive"])
        address = ray.get_runtime_context().gcs_address
        owner = identification.this_process()
        print(json.dumps(asdict(Cluster(head["NodeID"], address, (head["Resources"],), owner))), file=answers)
        answers.close()
        tasks, submissions = Tasks(), []
        first = sys.stdin.readline().strip()
        if not first:
            return

        def feed() -> None:
            for line in itertools.chain([first], sys.stdin):
                submissions.append(Submission(Path(line.strip())))
                tasks.add(submissions[-1])
            tasks.add(None)
            for submission in submissions:
                _stop(submission)

        threading.Thread(target=feed, daemon=True).start()
        run_trials(tasks, tune_folder(Submission(Path(first)), 1), jobs)


def _stop(submission: Submission) -> None:
    """Ask the trials of a submission to let their runs save and stop; those that have not begun are over."""
    (submission.root / STOP).touch()
    for number in range(len(submission.tasks())):
        if not submission.starts(number).exists():
            submission.note_over(INTERRUPTED, "asked to stop before it began", number)


@contextlib.contextmanager
def _started(within: float) -> Any:
    """Have a Ray on loopback and without its dashboard in the block. It has `within` seconds to start."""
    import ray

    os.environ.setdefault("RAY_raylet_start_wait_time_s", str(int(within)))
    os.environ.setdefault("RAY_agent_register_timeout_ms", str(int(1000 * within)))
    scratch = tempfile.mkdtemp(prefix="plat-ray-", dir="/tmp")  # names of sockets must be short
    try:
        ray.init(
            address=LOCAL,
            num_cpus=usable_cores(),
            include_dashboard=False,
            object_store_memory=OBJECT_STORE,
            _temp_dir=scratch,
            log_to_driver=False,
            configure_logging=False,
            logging_level=logging.ERROR,
        )
        yield
    finally:
        ray.shutdown()
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    os.environ |= {**SETTINGS, **os.environ}
    if sys.argv[1] == "--private":
        of_a_command(int(sys.argv[2]) or None, float(sys.argv[3]))
    else:
        of_a_job(Path(sys.argv[1]), int(sys.argv[2]))
