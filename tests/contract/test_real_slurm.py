"""A real SLURM on this machine (marked `cluster`; `make test-cluster`): what no fake can vouch for."""

from __future__ import annotations

import random
import subprocess
import threading
import time
from pathlib import Path

import pytest
from sweep_processes import wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.store.home import Home
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.cluster


def call(*command: str) -> str:
    """What a SLURM command says; one that fails (the controller is being restarted), or goes on trying to reach a job
    that has just ended, does no harm."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=15).stdout
    except subprocess.TimeoutExpired:
        return ""


class Disturber(threading.Thread):
    """So many signals, requeues, nodes that go down and come back, restarts of slurmctld; or until it is stopped."""

    def __init__(self, cluster, seed, pause, most):
        super().__init__()
        self.cluster, self.rng, self.pause, self.most = cluster, random.Random(seed), pause, most
        self.stopped = threading.Event()
        self.done: list[str] = []
        self.error: Exception | None = None

    def run(self):
        try:
            self.disturb()
        except Exception as error:
            self.error = error

    def disturb(self):
        while len(self.done) < self.most and not self.stopped.wait(self.rng.uniform(0.5, 1.5) * self.pause):
            kind = self.rng.choice(["signal", "signal", "requeue", "requeue", "node", "controller"])
            running = call("squeue", "-h", "-r", "-t", "RUNNING", "-o", "%F_%K").split()
            if kind == "controller":
                self.cluster.stop_controller()
                time.sleep(1)
                self.cluster.start_controller()
            elif kind == "node":
                node = f"node{self.rng.randint(1, self.cluster.nodes)}"
                call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
                time.sleep(2)
                call("scontrol", "update", f"nodename={node}", "state=resume")
            elif running and kind == "signal":
                call("scancel", "--signal=USR2", "--batch", self.rng.choice(running))
            elif running:
                call("scontrol", "requeue", self.rng.choice(running))
            else:
                continue
            self.done.append(kind)

    def stop(self):
        """Wait for its end; what went wrong in it is raised here."""
        self.stopped.set()
        self.join()
        if self.error is not None:
            raise self.error


def disturbed_sweep(home: Home, calm: Home, cluster, count: int, pause: float) -> list[str]:
    """Every run ends finished, bit-identical to an undisturbed one, and none is executed to its end twice."""
    shape = {"iterations": 60, "checkpoint_every": 5}
    runs = [toy_run(seed=seed, sleep=0.1, **shape) for seed in range(count)]
    references = [toy_run(seed=seed, **shape) for seed in range(count)]
    sweep(calm, references, 2)
    disturber = Disturber(cluster, seed=count, pause=pause, most=count)
    disturber.start()
    try:
        settings = ("cluster.refresh=1", "cluster.accept_within=5", "cluster.runs_per_task=2")
        report = sweep(home, runs, on="slurm", cluster=settings)
    finally:
        disturber.stop()
    assert report.counts() == {"done": count}, [end for end in report.ends.values() if end.state != "done"]
    for run, reference in zip(runs, references, strict=True):
        paths = home.run(run.id)
        ours, theirs = comparable(paths), comparable(calm.run(reference.id))
        assert all(ours[part] == theirs[part] for part in ("metrics", "tables", "checkpoint"))
        assert no_step_twice(paths)
        ends = [attempt for attempt in paths.attempts() if '"outcome": "finished"' in _text(attempt.outcome)]
        assert len(ends) == 1
    return disturber.done


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.mark.long
def test_twenty_disturbed_runs_give_what_undisturbed_ones_give(home, real, tmp_path):
    done = disturbed_sweep(home, Home(tmp_path / "calm").create(), real, 20, pause=2.0)
    assert len(done) >= 3, "it was over too soon to be disturbed"


@pytest.mark.chaos
def test_two_hundred_disturbed_runs_give_what_undisturbed_ones_give(home, real, tmp_path):
    done = disturbed_sweep(home, Home(tmp_path / "calm").create(), real, 200, pause=2.0)
    assert {"signal", "requeue", "node", "controller"} <= set(done)


def test_a_preemption_goes_on_from_the_checkpoint_without_accounting(home, without_accounting):
    """Jobs of the partition `high` need every node, so SLURM preempts ours; it tells them beforehand."""
    run = toy_run(seed=1, iterations=200, sleep=0.1, checkpoint_every=1000)
    settings = ("cluster.refresh=1", "cluster.time=60")
    reports = []
    thread = threading.Thread(target=lambda: reports.append(sweep(home, [run], on="slurm", cluster=settings)))
    thread.start()
    wait_for(lambda: (run_state(home.run(run.id)).step or 0) > 5)
    assert not call("sacct", "-n"), "this cluster was to have no accounting"
    every_node = ["-N", str(without_accounting.nodes), "--exclusive"]
    rush = ["sbatch", "--parsable", "-p", "high", *every_node, "-t", "1", "--wrap", "sleep 3"]
    assert subprocess.run([*rush, "-o", "/dev/null"], capture_output=True, timeout=60).returncode == 0
    thread.join()
    assert reports[0].counts() == {"done": 1}
    attempts = home.run(run.id).attempts()
    assert len(attempts) == 2 and no_step_twice(home.run(run.id))
    assert read_outcome(attempts[0])["outcome"] == "interrupted"
    assert read_attempt_meta(attempts[1])["restored_step"] > 0
