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
from clusters import TOY, FakeSlurm
from sweep_processes import wait_for
from toy_runs import toy_run

from plat.store.durable import read_json
from plat.store.home import Home
from plat.store.submissions import Submission

SCRIPT = Path(__file__).parent / "toy_submit.py"
Submit = Callable[[Home, int, Sequence[int | str]], list[dict[str, Any]]]


@contextlib.contextmanager
def submitters_process() -> Iterator[subprocess.Popen[str]]:
    """A process that forks submitters (see toy_submit.py), in a process group with them."""
    environment = {**os.environ, "PYTHONPATH": f"{TOY}:{SCRIPT.parent}"}
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

    def started(home: Home, runs: int, kill_at: Sequence[int | str]) -> list[dict[str, Any]]:
        ask(submitters, home, runs, kill_at)
        assert submitters.stdout is not None
        return json.loads(submitters.stdout.readline())

    return started


def ask(submitters: subprocess.Popen[str], home: Home, runs: int, kill_at: Sequence[int | str]) -> None:
    assert submitters.stdin is not None
    request = {"home": str(home.root), "runs": runs, "kill_at": list(kill_at)}
    submitters.stdin.write(json.dumps(request) + "\n")
    submitters.stdin.flush()


def submitted(home: Home, fake: FakeSlurm) -> Counter[str]:
    """How often SLURM has accepted each run of a home."""
    jobs = {task["job_name"] for task in fake.tasks()}
    manifests = [read_json(Submission(home.submissions / job).manifest) or {"tasks": []} for job in jobs]
    return Counter(run_id for manifest in manifests for task in manifest["tasks"] for run_id in task)


def each_once(runs: int) -> dict[str, int]:
    return {toy_run(seed=number).id: 1 for number in range(runs)}


# Before which step a submitter is killed: it has a folder; the folder is locked; a run is claimed; everything is
# written down; sbatch is called; SLURM has answered; its number is on disk under another name.
POINTS = ["fcntl.flock", "os.link 001.json", "os.link submission.json", "subprocess.Popen sbatch", "os.link job.json"]


def kill_then_submit(submit: Submit, fake: FakeSlurm, home: Home, kill_at: int | str) -> None:
    """One submitter is killed; the next makes whole what it left."""
    assert submit(home, 2, [kill_at])[0]["exit"] == -9, f"it was not killed at {kill_at}"
    last = submit(home, 2, [0])[0]
    assert last["exit"] == 0, (kill_at, last["said"])
    assert submitted(home, fake) == each_once(2), (kill_at, last["said"])


def test_a_submitter_that_is_killed_leaves_what_the_next_goes_on_from(tmp_path, fake, submit):
    for number, point in enumerate(POINTS):
        kill_then_submit(submit, fake, Home(tmp_path / f"home-{number}").create(), point)


@pytest.mark.cluster
def test_a_submitter_may_be_killed_at_every_point(tmp_path, fake, submit):
    steps = submit(Home(tmp_path / "whole").create(), 2, [0])[0]["steps"]
    assert steps > 30
    for point in range(1, steps + 1):
        kill_then_submit(submit, fake, Home(tmp_path / f"home-{point}").create(), point)


def test_an_sbatch_that_outlives_its_submitter_is_waited_for(home, fake, submit):
    fake.set(hang_sbatch=1)
    with submitters_process() as others:
        ask(others, home, 2, [0])
        wait_for(lambda: fake.calls().get("sbatch") == 1)
        os.killpg(others.pid, signal.SIGKILL)
    last = submit(home, 2, [0])[0]
    assert last["exit"] == 0 and submitted(home, fake) == each_once(2), last["said"]


def race(submit: Submit, fake: FakeSlurm, home: Home, runs: int, points: Sequence[int | str]) -> None:
    """Submitters start at once, some of them are killed; one that lives makes whole what they left."""
    ends = submit(home, runs, points)
    for point, end in zip(points, ends, strict=True):
        assert point or end["exit"] == 0, end["said"]
    last = submit(home, runs, [0])[0]
    assert last["exit"] == 0, last["said"]
    assert submitted(home, fake) == each_once(runs), (points, last["said"])


def test_submitters_at_once_some_of_them_killed(home, fake, submit):
    race(submit, fake, home, 4, [0, *POINTS, 0])


@pytest.mark.cluster
def test_twenty_submitters_at_once_twenty_times_half_of_them_killed(tmp_path, fake, submit):
    """The points of the 200 kills are spread over a whole submission. In every other round an sbatch hangs."""
    runs, rounds = 20, 20
    steps = submit(Home(tmp_path / "whole").create(), runs, [0])[0]["steps"]
    points = [1 + kill * steps // (10 * rounds) for kill in range(10 * rounds)]
    random.Random(1).shuffle(points)
    for number in range(rounds):
        fake.set(hang_sbatch=number % 2)
        killed = points[10 * number : 10 * number + 10]
        race(submit, fake, Home(tmp_path / f"home-{number}").create(), runs, [*killed, *[0] * 10])
