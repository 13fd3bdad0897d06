"""Submitters and drivers of `--on ray` that are killed, on a real Ray of two nodes (marked `cluster`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from clusters import PYTHONPATH
from ray_cluster import ENVIRONMENT, RayCluster, on_ray
from sweep_processes import wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.store.coordination.submissions import Submission, newest_record
from plat.store.home import Home
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.cluster
SLOW = {"iterations": 150, "sleep": 0.05, "checkpoint_every": 5}
# The steps of a submission. A test kills the submitter before each of them.
STEPS = [
    "fcntl.flock",  # its folder is there
    "os.link submission.json",  # the folder is locked
    "http.client.send POST /api/jobs",  # submission.json is there
    "os.link job.json",  # the job is submitted
    "http.client.send GET /api/jobs",  # job.json is there (a second refresh)
]
SUBMITTER = """
import sys
from pathlib import Path
from step_counter import StepCounter
from toy_runs import toy_run
from plat.dispatch.driver import sweep
from plat.store.home import Home
home, point, *cluster = sys.argv[1:]
StepCounter(home, point)
sweep(Home(Path(home)), [toy_run(seed=seed) for seed in range(2)], on="ray", cluster=cluster)
"""


def starts(home: Home, runs: list) -> list[int]:
    """How often Tune has started the task of each run, in all submissions of the home."""
    tasks = {run.id: 0 for run in runs}
    for folder in home.submissions.iterdir():
        submission = Submission(folder)
        for number, ids in enumerate(submission.tasks()):
            if submission.starts(number).exists():
                for run_id in ids:
                    tasks[run_id] += len(submission.starts(number).read_text().splitlines())
    return list(tasks.values())


@pytest.mark.parametrize(
    "step", [step if "POST" in step else pytest.param(step, marks=pytest.mark.long) for step in STEPS]
)
def test_a_submitter_may_be_killed_before_each_step(home: Home, ray: RayCluster, step: str) -> None:
    """Nothing is lost, nothing is executed twice, and no start of a task is wasted."""
    runs = [toy_run(seed=seed) for seed in range(2)]
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    command = [sys.executable, "-c", SUBMITTER, str(home.root), step, *on_ray(ray)]
    killed = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200)
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr
    assert sweep(home, runs, on="ray", cluster=on_ray(ray)).counts() == {"done": 2}
    assert all(len(home.run(run.id).attempts()) == 1 for run in runs)
    assert starts(home, runs) == [1, 1]


def test_a_killed_driver_is_replaced_by_the_next_command(home: Home, ray: RayCluster, tmp_path) -> None:
    run = toy_run(seed=3, **SLOW)
    assert sweep(home, [run], on="ray", cluster=on_ray(ray), detach=True).counts() == {"queued": 1}
    wait_for(lambda: (run_state(home.run(run.id)).step or 0) > 6)
    submission = newest_record(home.run(run.id)).submission
    [driver] = drivers(submission.name)
    driver.kill()
    assert sweep(home, [run], on="ray", cluster=on_ray(ray)).counts() == {"done": 1}
    attempts = home.run(run.id).attempts()
    assert len(attempts) == 2 and read_attempt_meta(attempts[1])["restored_step"] > 0
    assert starts(home, [run]) == [2] and no_step_twice(home.run(run.id))
    calm = Home(tmp_path / "calm").create()
    reference = toy_run(seed=3, iterations=150, checkpoint_every=5)
    assert sweep(calm, [reference], 1).counts() == {"done": 1}
    ours, theirs = comparable(home.run(run.id)), comparable(calm.run(reference.id))
    assert all(ours[part] == theirs[part] for part in ("metrics", "tables", "checkpoint"))


@pytest.mark.chaos
def test_a_private_ray_that_loses_its_node_is_replaced(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tune would wait for ever. The runs save, and the command starts another Ray."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)
    run = toy_run(seed=3, **{**SLOW, "iterations": 500})  # Ray needs 10 s to notice
    killer = threading.Thread(target=_kill_raylet, args=(home, run.id))
    killer.start()
    private = ("cluster.address=local", "cluster.refresh=0.3")
    assert sweep(home, [run], on="ray", cluster=private).counts() == {"done": 1}
    killer.join()
    assert len(home.run(run.id).attempts()) == 2 and no_step_twice(home.run(run.id))


def _kill_raylet(home: Home, run_id: str) -> None:
    wait_for(lambda: (run_state(home.run(run_id)).step or 0) > 6)
    for process in psutil.Process().children(recursive=True):
        if process.name() == "raylet":
            process.kill()


def drivers(name: str) -> list[psutil.Process]:
    """The processes that hold the Tuner of a submission (not the shells that started them)."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "plat.dispatch.ray.driver" in line and any(name in word for word in line):
            found.append(process)
    return found


def test_tune_s_own_tools_see_the_evaluations(home: Home, ray: RayCluster) -> None:
    from ray import tune

    run = toy_run(seed=4)
    assert sweep(home, [run], on="ray", cluster=on_ray(ray)).counts() == {"done": 1}
    submission = newest_record(home.run(run.id)).submission
    folder = home.root / "ray" / f"{submission.name}-1"
    until = time.monotonic() + 60
    while drivers(submission.name):
        assert time.monotonic() < until
        time.sleep(0.2)
    frame = tune.ExperimentAnalysis(str(folder)).dataframe()
    assert list(frame["step"]) == [6] and list(frame["run"]) == [run.id]


@pytest.mark.chaos  # three minutes for ten
@pytest.mark.parametrize("count", [10, 200])
def test_runs_whose_nodes_are_killed_give_what_undisturbed_ones_give(
    home: Home, tmp_path: Path, tasks_find_the_toy: None, monkeypatch, count: int
) -> None:
    """Nodes with runs are killed again and again, and replaced; every run is executed to its end once."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    shape = {"iterations": 60, "checkpoint_every": 5}
    runs = [toy_run(seed=seed, sleep=0.1, **shape) for seed in range(count)]
    references = [toy_run(seed=seed, **shape) for seed in range(count)]
    calm = Home(tmp_path / "calm").create()
    assert sweep(calm, references, 2).counts() == {"done": count}
    cluster = RayCluster()
    try:
        killer = NodeKiller(cluster, pause=5.0)
        killer.start()
        try:
            report = sweep(home, runs, on="ray", cluster=(*on_ray(cluster), "cluster.runs_per_task=2"))
        finally:
            killer.stop()
    finally:
        cluster.down()
    assert report.counts() == {"done": count}, [end for end in report.ends.values() if end.state != "done"]
    assert killer.killed
    for run, reference in zip(runs, references, strict=True):
        ours, theirs = comparable(home.run(run.id)), comparable(calm.run(reference.id))
        assert all(ours[part] == theirs[part] for part in ("metrics", "tables", "checkpoint"))
        assert no_step_twice(home.run(run.id))
        ends = [read_outcome(attempt) or {} for attempt in home.run(run.id).attempts()]
        assert [end.get("outcome") for end in ends].count("finished") == 1


class NodeKiller(threading.Thread):
    """Kill the newest node of a cluster every `pause` seconds, after another one has joined."""

    def __init__(self, cluster: RayCluster, pause: float) -> None:
        super().__init__()
        self.killed = 0
        self._cluster = cluster
        self._pause = pause
        self._stopped = threading.Event()

    def run(self) -> None:
        newest = 1
        while not self._stopped.wait(self._pause):
            joined = self._cluster.add_node(2)
            self._cluster.kill_node(newest)
            newest, self.killed = joined, self.killed + 1

    def stop(self) -> None:
        self._stopped.set()
        self.join()
