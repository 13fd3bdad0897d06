"""Many submitters at once, some killed at any point of a submission: each run is submitted exactly once.

Nothing runs meanwhile (the fake SLURM has no slots), so what counts is what SLURM has accepted.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from clusters import PYTHONPATH, QUICK, FakeSlurm
from sweep_processes import Recorder, wait_for
from toy_runs import toy_run

from plat.dispatch.driver import sweep
from plat.store.coordination.submissions import Submission
from plat.store.disk.durable import read_json
from plat.store.home import Home

SCRIPT = Path(__file__).parent / "toy_submit.py"
Submitter = tuple[Home, int | str]  # where it submits, and the step before which it is killed (0: it lives)
Submit = Callable[[int, Sequence[Submitter]], list[dict[str, Any]]]
AT_ONCE = 10  # homes in which something is killed at the same time


@contextlib.contextmanager
def submitters_process() -> Iterator[subprocess.Popen[str]]:
    """A process that forks submitters (see toy_submit.py), in a process group with them."""
    environment = {**os.environ, "PYTHONPATH": f"{PYTHONPATH}:{SCRIPT.parent}"}
    with subprocess.Popen(
        [sys.executable, str(SCRIPT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def submitters(fake: FakeSlurm) -> Iterator[subprocess.Popen[str]]:
    fake.set(slots=0)
    with submitters_process() as process:
        yield process


@pytest.fixture
def submit(submitters: subprocess.Popen[str]) -> Submit:
    """Start submitters at once; how each ended."""

    def started(runs: int, at_once: Sequence[Submitter]) -> list[dict[str, Any]]:
        ask(submitters, runs, at_once)
        assert submitters.stdout is not None
        return json.loads(submitters.stdout.readline())

    return started


def ask(submitters: subprocess.Popen[str], runs: int, at_once: Sequence[Submitter]) -> None:
    assert submitters.stdin is not None
    request = {"runs": runs, "submitters": [[str(home.root), kill_at] for home, kill_at in at_once]}
    submitters.stdin.write(json.dumps(request) + "\n")
    submitters.stdin.flush()


def submitted(home: Home, fake: FakeSlurm) -> Counter[str]:
    """How often SLURM has accepted each run of a home."""
    jobs = {task["job_name"] for task in fake.tasks()}
    manifests = [read_json(Submission(home.submissions / job).manifest) or {"tasks": []} for job in jobs]
    return Counter(run_id for manifest in manifests for task in manifest["tasks"] for run_id in task)


def each_once(runs: int) -> dict[str, int]:
    return {toy_run(seed=number).id: 1 for number in range(runs)}


# The steps before which a submitter is killed: it locks its folder, writes down what it submits, writes
# the pickles, calls sbatch, moves the batch script and the pickles to where the job expects them, and writes down the
# number of the job.
POINTS = ["fcntl.flock", "os.link submission.json", "open .pkl", "subprocess.Popen sbatch"]
POINTS += ["os.rename _submission.sh", "os.rename _submitted.pkl", "os.link job.json"]


def kill_then_submit(submit: Submit, fake: FakeSlurm, homes: Sequence[Home], points: Sequence[int | str]) -> None:
    """In each home a submitter is killed; the next makes whole what it left."""
    killed = submit(2, list(zip(homes, points, strict=True)))
    for point, end in zip(points, killed, strict=True):
        assert end["exit"] == -9, f"it was not killed at {point}: {end['said']}"
    last = submit(2, [(home, 0) for home in homes])
    for home, point, end in zip(homes, points, last, strict=True):
        assert end["exit"] == 0, (point, end["said"])
        assert submitted(home, fake) == each_once(2), (point, end["said"])


def new_homes(folder: Path, count: int) -> list[Home]:
    return [Home(folder / f"home-{number}").create() for number in range(count)]


def test_a_submitter_that_is_killed_leaves_what_the_next_goes_on_from(tmp_path, fake, submit):
    kill_then_submit(submit, fake, new_homes(tmp_path, len(POINTS)), POINTS)


@pytest.mark.parametrize("ends", [False, True])
def test_a_killed_submitter_costs_a_task_at_most_one_start(home, fake, submit, ends):
    """Its job has started without a pickle. The next command writes the pickle while the task waits for it; if the task
    has ended, its runs are submitted again."""
    fake.set(slots=2, requeue=False)
    [killed] = submit(4, [(home, "os.rename _submitted.pkl")])
    assert killed["exit"] == -9
    wait_for(lambda: len([task for task in fake.tasks() if task["state"] == "RUNNING"]) == 2)
    for task in fake.tasks() if ends else ():
        fake.fail_node(task["name"])
    wait_for(lambda: not ends or all(task["state"] == "NODE_FAIL" for task in fake.tasks()))
    runs = [toy_run(seed=seed) for seed in range(4)]
    recorder = Recorder()
    report = sweep(home, runs, on="slurm", cluster=(*QUICK, "cluster.runs_per_task=2"), progress=recorder)
    assert report.counts() == {"done": 4} and all(len(home.run(run.id).attempts()) == 1 for run in runs)
    assert fake.calls()["sbatch"] == (2 if ends else 1)
    assert any(str(line).startswith("2 tasks started in vain") for line in recorder.lines) is ends


@pytest.mark.cluster
def test_a_submitter_may_be_killed_at_every_point(tmp_path, fake, submit):
    steps = submit(2, [(Home(tmp_path / "whole").create(), 0)])[0]["steps"]
    assert steps > 30
    for first in range(1, steps + 1, AT_ONCE):
        points = range(first, min(first + AT_ONCE, steps + 1))
        kill_then_submit(submit, fake, new_homes(tmp_path / str(first), len(points)), points)


def test_an_sbatch_that_outlives_its_submitter_is_waited_for(home, fake, submit):
    fake.set(hang_sbatch=1)
    with submitters_process() as others:
        ask(others, 2, [(home, 0)])
        wait_for(lambda: fake.calls().get("sbatch") == 1)
        os.killpg(others.pid, signal.SIGKILL)
    last = submit(2, [(home, 0)])[0]
    assert last["exit"] == 0 and submitted(home, fake) == each_once(2), last["said"]


def race(submit: Submit, fake: FakeSlurm, home: Home, runs: int, points: Sequence[int | str]) -> None:
    """Submitters start at once, some of them are killed; one that lives makes whole what they left."""
    ends = submit(runs, [(home, point) for point in points])
    for point, end in zip(points, ends, strict=True):
        assert point or end["exit"] == 0, end["said"]
    last = submit(runs, [(home, 0)])[0]
    assert last["exit"] == 0, last["said"]
    assert submitted(home, fake) == each_once(runs), (points, last["said"])


def test_submitters_at_once_some_of_them_killed(home, fake, submit):
    race(submit, fake, home, 4, [0, *POINTS, 0])


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("rounds", [4, pytest.param(20, marks=pytest.mark.chaos)])
def test_twenty_submitters_at_once_half_of_them_killed(tmp_path, fake, submit, rounds):
    """The kills, ten a round, are spread over the points of a submission; in every other round an sbatch hangs."""
    runs = 20
    steps = submit(runs, [(Home(tmp_path / "whole").create(), 0)])[0]["steps"]
    points = [1 + kill * steps // (10 * rounds) for kill in range(10 * rounds)]
    random.Random(1).shuffle(points)
    for number in range(rounds):
        fake.set(hang_sbatch=number % 2)
        killed = points[10 * number : 10 * number + 10]
        race(submit, fake, Home(tmp_path / f"home-{number}").create(), runs, [*killed, *[0] * 10])
