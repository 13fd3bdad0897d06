"""`python with_submitit.py local|start|slurm FOLDER JOBS`: jobs with submitit alone.

local  run with the local executor, BATCH jobs at a time: it starts two processes for each job at once
start  the same with all jobs at once; writes the time at which all were started, then waits for them
slurm  submit all jobs as one array and exit
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import submitit

BATCH = 50


def noop(seed: int) -> float:
    return 1.0


def main(mode: str, folder: str, count: int) -> None:
    executor = submitit.AutoExecutor(folder=f"{folder}/%j", cluster="slurm" if mode == "slurm" else "local")
    executor.update_parameters(timeout_min=60)
    size = BATCH if mode == "local" else count
    for first in range(0, count, size):
        jobs = executor.map_array(noop, range(first, min(count, first + size)))
        if mode == "start":
            Path(os.environ["ACCEPTED"]).write_text(str(time.time()))
        if mode != "slurm":
            wait(jobs)


def wait(jobs: list[submitit.Job[float]]) -> None:
    while not all(job.done() for job in jobs):
        time.sleep(0.02)  # `Job.result` polls once a second
    assert all(job.result() == 1.0 for job in jobs)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
