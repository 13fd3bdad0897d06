"""`python toy_submit.py HOME RUNS KILL_AT`: submits RUNS toy runs and leaves; kills itself at its KILL_AT-th step.

A step is whatever Python tells its auditors of and that touches the home, a lock or a process: opening, linking,
renaming or removing a file, making a folder, locking, starting sbatch. KILL_AT 0 lets it live.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from clusters import QUICK
from toy_runs import toy_run

from plat.dispatch.driver import sweep
from plat.store.home import Home

STEPS = ("open", "os.link", "os.rename", "os.remove", "os.mkdir", "os.listdir", "fcntl.flock", "subprocess.Popen")


def kill_at(step: int, home: str) -> None:
    counted = 0

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal counted
        inside = event in ("fcntl.flock", "subprocess.Popen") or home in str(arguments[:1])
        if event in STEPS and inside:
            counted += 1
            if counted == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


if __name__ == "__main__":
    place, count, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    home = Home(Path(place)).create()
    runs = [toy_run(seed=seed) for seed in range(count)]
    if step:
        kill_at(step, place)
    cluster = [*QUICK, "cluster.runs_per_task=2", "cluster.command_timeout=10"]
    report = sweep(home, runs, on="slurm", cluster=cluster, detach=True)
    print(report.counts(), [end.reason for end in report.ends.values()][:2])
    sys.exit(report.exit_code)
