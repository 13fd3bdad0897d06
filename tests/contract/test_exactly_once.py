"""Many submitters at once, some killed at any point of a submission: each run is submitted exactly once.

Nothing runs meanwhile (the fake SLURM has no slots), so what counts is what SLURM has accepted.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from clusters import TOY, FakeSlurm
from sweep_processes import wait_for
from toy_runs import toy_run

from plat.store.durable import read_json
from plat.store.home import Home
from plat.store.submissions import Submission

SCRIPT = Path(__file__).parent / "toy_submit.py"


def submitted(home: Home, fake: FakeSlurm) -> Counter[str]:
    """How often SLURM has accepted each run."""
    jobs = {task["job_name"] for task in fake.tasks()}
    manifests = [read_json(Submission(home.submissions / job).manifest) for job in jobs]
    return Counter(run_id for manifest in manifests for task in manifest["tasks"] for run_id in task)


def start(home: Home, runs: int, kill_at: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{TOY}:{SCRIPT.parent}"}
    command = [sys.executable, str(SCRIPT), str(home.root), str(runs), str(kill_at)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def race(home: Home, fake: FakeSlurm, submitters: int, runs: int, seed: int) -> None:
    """Half of the submitters are killed, each at a point of its own; one that lives makes whole what they left."""
    rng = random.Random(seed)
    points = [rng.randrange(1, 40 + 8 * runs) if number % 2 else 0 for number in range(submitters)]
    fake.set(slots=0, hang_sbatch=seed % 2)
    processes = [start(home, runs, point) for point in points]
    for process, point in zip(processes, points, strict=True):
        output = process.communicate(timeout=300)[0]
        assert point or process.returncode == 0, output
    last = start(home, runs, 0)
    output = last.communicate(timeout=300)[0]
    assert last.returncode == 0, output
    wanted = {toy_run(seed=number).id: 1 for number in range(runs)}
    assert submitted(home, fake) == wanted, (points, output)


# 42: its folder is locked. 47: one run is claimed. 57: sbatch is about to be called. 60: it was. 62: job.json is there.
POINTS = [47, 60]
MORE_POINTS = [pytest.param(point, marks=pytest.mark.cluster) for point in (42, 57, 62)]
EVERY_POINT = [
    pytest.param(point, marks=pytest.mark.chaos) for point in range(1, 75) if point not in {42, 47, 57, 60, 62}
]


@pytest.mark.parametrize("kill_at", [*POINTS, *MORE_POINTS, *EVERY_POINT])
def test_a_submitter_that_is_killed_leaves_what_the_next_goes_on_from(home, fake, kill_at):
    fake.set(slots=0)
    process = start(home, 2, kill_at)
    process.communicate(timeout=120)
    last = start(home, 2, 0)
    output = last.communicate(timeout=120)[0]
    assert last.returncode == 0, output
    assert submitted(home, fake) == {toy_run(seed=number).id: 1 for number in range(2)}


def test_an_sbatch_that_outlives_its_submitter_is_waited_for(home, fake):
    fake.set(slots=0, hang_sbatch=1)
    process = start(home, 2, 0)
    wait_for(lambda: fake.calls().get("sbatch") == 1)
    process.kill()
    last = start(home, 2, 0)
    output = last.communicate(timeout=120)[0]
    process.communicate()
    assert last.returncode == 0 and submitted(home, fake) == {toy_run(seed=number).id: 1 for number in range(2)}, output


def test_submitters_at_once_some_of_them_killed(home, fake):
    race(home, fake, submitters=4, runs=4, seed=1)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(20))
def test_twenty_submitters_at_once_some_of_them_killed(home, fake, seed):
    race(home, fake, submitters=20, runs=20, seed=seed)
