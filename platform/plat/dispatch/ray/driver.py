"""The program that holds the Tuner: `python -m plat.dispatch.ray.driver SUBMISSION ATTEMPT`, started by Ray's Jobs API.

Its trials are the tasks of the submission that are not over. It ends when all of them are.

`python -m plat.dispatch.ray.driver --private JOBS SECONDS` starts a private Ray, which has so many seconds for it, and
prints its facts (a `cluster.Cluster` as JSON). It reads folders of submissions from standard input, one a line. When
that is closed, the runs save and stop, and the private Ray ends.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plat.dispatch.ray.jobs import Cluster, tune_folder
from plat.dispatch.ray.ray_settings import LOCAL
from plat.processes import identification
from plat.processes.own_process import usable_cores
from plat.store.coordination.submissions import Submission
from plat.trainer.private_ray import private_ray

LOOK_EVERY = 2.0  # seconds between two looks at the node of a private Ray
OBJECT_STORE = 80 * 2**20  # bytes; plat stores no objects in it
SETTINGS = {  # of Ray and of Tune, unless the user has set them
    "RAY_AIR_NEW_OUTPUT": "0",  # Tune prints nothing
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a private Ray hides no GPU from a trial without one
    "RAY_USAGE_STATS_ENABLED": "0",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_MAX_PENDING_TRIALS_PG": "200",  # a trial that waits for a node does not hold up the others
}


def main(arguments: Sequence[str], make_tasks: Callable[[], Any]) -> None:
    """Run the program with these arguments; `make_tasks` returns a `tuner.Tasks`, after Ray was started."""
    os.environ |= {**SETTINGS, **os.environ}
    if arguments[0] == "--private":
        of_a_command(int(arguments[1]) or None, float(arguments[2]), make_tasks)
    else:
        of_a_job(Path(arguments[0]), int(arguments[1]), make_tasks)


def of_a_job(folder: Path, attempt: int, make_tasks: Callable[[], Any]) -> None:
    """Execute the tasks of one submission on the cluster whose job this process is."""
    import ray

    ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    submission, tasks = Submission(folder), make_tasks()
    tasks.add(submission)
    tasks.add(None)
    tasks.execute(tune_folder(submission, attempt), submission.facts().get("jobs"))


def of_a_command(jobs: int | None, within: float, make_tasks: Callable[[], Any]) -> None:
    """Start a private Ray and execute the tasks of the submissions that the command writes to standard input."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the command decides what Ctrl-C means
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with private_ray(nodes=1), _started(within):  # before Ray is imported
        import ray

        head = next(node for node in ray.nodes() if node["Alive"])
        address = ray.get_runtime_context().gcs_address
        owner = identification.this_process()
        print(json.dumps(asdict(Cluster(head["NodeID"], address, (head["Resources"],), owner))), file=answers)
        answers.close()
        tasks = make_tasks()
        first = sys.stdin.readline().strip()
        if not first:
            return
        tasks.add(Submission(Path(first)))

        def feed() -> None:
            for line in sys.stdin:
                tasks.add(Submission(Path(line.strip())))
            tasks.stop()

        threading.Thread(target=feed, daemon=True).start()
        threading.Thread(target=_end_without_node, daemon=True).start()
        tasks.execute(tune_folder(Submission(Path(first)), 1), jobs)


def _end_without_node() -> None:
    """End this process, and the other ones of its Ray, once the node was lost: Tune would wait for ever."""
    import ray

    while ray.is_initialized() and any(node["Alive"] for node in ray.nodes()):
        time.sleep(LOOK_EVERY)
    if not ray.is_initialized():  # it has ended as it should
        return
    print("the node of the private Ray was lost", file=sys.stderr, flush=True)
    os.killpg(0, signal.SIGKILL)  # the runs are not of this group, and save


def _tasks() -> Any:
    from plat.dispatch.ray.tuner import Tasks

    return Tasks()


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
    main(sys.argv[1:], _tasks)
