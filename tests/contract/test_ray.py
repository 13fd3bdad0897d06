"""What --on ray promises beyond every dispatcher, on a real Ray of two nodes (marked `cluster`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import plat_toy
import pytest
from listening import listening
from ray_cluster import on_ray
from sweep_processes import finish, start, wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.dispatch.schedulers import cancel_runs
from plat.processes import identification
from plat.store.coordination.submissions import newest_record
from plat.store.home import Home
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.cluster
PATIENCE = 300  # seconds; Ray starts a process for each actor
SLOW = {"iterations": 150, "sleep": 0.05, "checkpoint_every": 5}


def follow(home, runs, ray, *more, **options):
    return sweep(home, runs, on="ray", cluster=(*on_ray(ray), *more), **options)


def begun(home, run, process=None, step=6):
    wait_for(lambda: (run_state(home.run(run.id)).step or 0) > step, process, timeout=PATIENCE)


def starts(home, run):
    """The process of each start of the task that has a run."""
    record = newest_record(home.run(run.id))
    return [json.loads(line)["pid"] for line in record.submission.starts(record.task).read_text().splitlines()]


def as_undisturbed(home, run, tmp_path):
    """Whether an interrupted run gave what it gives when it is done here in one go."""
    calm = Home(tmp_path / "calm").create()
    reference = toy_run(**{key: run.config[key] for key in ("seed",)}, iterations=150, checkpoint_every=5)
    assert sweep(calm, [reference], 1).counts() == {"done": 1}
    ours, theirs = comparable(home.run(run.id)), comparable(calm.run(reference.id))
    return all(ours[part] == theirs[part] for part in ("metrics", "tables", "checkpoint"))


def test_a_sweep_leaves_and_the_same_command_follows_and_ray_prints_nothing(home, ray, capfd):
    runs = [toy_run(seed=seed) for seed in range(3)]
    report = follow(home, runs, ray, "cluster.runs_per_task=2", detach=True)
    assert report.exit_code == 0 and set(report.counts()) <= {"queued", "done"}
    assert follow(home, runs, ray).counts() == {"done": 3}
    assert all(len(home.run(run.id).attempts()) == 1 for run in runs)
    assert len(list(home.submissions.iterdir())) == 1
    assert capfd.readouterr() == ("", "")


def test_a_killed_driver_is_restarted_and_finds_what_runs(home, ray):
    run = toy_run(seed=1, **SLOW)
    driver = start(home, [{"seed": 1, **SLOW}], 0, on="ray", cluster=on_ray(ray))
    begun(home, run, driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=PATIENCE)
    assert follow(home, [run], ray).counts() == {"done": 1}
    assert len(home.run(run.id).attempts()) == 1 and len(starts(home, run)) == 1


@pytest.mark.long
def test_an_interrupted_driver_leaves_its_runs_to_the_cluster(home, ray):
    run = toy_run(seed=2, **SLOW)
    driver = start(home, [{"seed": 2, **SLOW}], 0, on="ray", cluster=on_ray(ray))
    begun(home, run, driver)
    os.kill(driver.pid, signal.SIGINT)
    code, output, report = finish(driver, PATIENCE)
    assert code == 130 and report["counts"] == {"queued": 1} and "stopped following" in output
    assert "Traceback" not in output
    assert follow(home, [run], ray).counts() == {"done": 1}
    assert len(home.run(run.id).attempts()) == 1


def test_a_killed_worker_of_ray_is_started_again_and_goes_on(home, ray, tmp_path):
    run = toy_run(seed=3, **SLOW)
    follow(home, [run], ray, detach=True)
    begun(home, run)
    os.kill(starts(home, run)[0], signal.SIGKILL)
    assert follow(home, [run], ray).counts() == {"done": 1}
    attempts = home.run(run.id).attempts()
    assert len(starts(home, run)) == 2 and len(attempts) == 2 and no_step_twice(home.run(run.id))
    assert read_attempt_meta(attempts[1])["restored_step"] > 0 and as_undisturbed(home, run, tmp_path)


def test_a_lost_node_s_run_goes_on_elsewhere(home, ray, tmp_path):
    """Only a node of three CPUs can have the run: the one that is lost, and the one that comes then."""
    lost = ray.add_node(3)
    run = toy_run(seed=4, **SLOW)
    follow(home, [run], ray, "cluster.threads=3", detach=True)
    begun(home, run)
    ray.kill_node(lost)
    ray.add_node(3)
    assert follow(home, [run], ray, "cluster.threads=3").counts() == {"done": 1}
    assert len(starts(home, run)) == 2 and len(home.run(run.id).attempts()) == 2
    assert no_step_twice(home.run(run.id)) and as_undisturbed(home, run, tmp_path)


def test_two_sweeps_at_once_hand_each_run_over_once(home, ray):
    runs = [toy_run(seed=seed) for seed in range(10, 14)]
    reports = []
    others = [threading.Thread(target=lambda: reports.append(follow(home, runs, ray))) for _ in range(2)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert [report.counts() for report in reports] == [{"done": 4}] * 2
    assert all(len(home.run(run.id).attempts()) == 1 and len(starts(home, run)) == 1 for run in runs)


def test_what_no_node_can_do_is_refused(home, ray):
    report = follow(home, [toy_run(gpus=1)], ray)
    [end] = report.ends.values()
    assert end.state == "missing" and "asks for 1 GPU, and no node of the Ray cluster has more than 0" in end.reason


def test_a_run_that_waits_in_ray_is_cancelled_without_asking_ray(home, ray):
    run = toy_run(gpus=1)
    report = follow(home, [run], ray, "cluster.elastic=true", detach=True)
    assert report.counts() == {"queued": 1} and run_state(home.run(run.id)).state == "queued"
    assert cancel_runs(home, [run.id]) == [run.id]
    assert run_state(home.run(run.id)).state == "missing"
    assert follow(home, [toy_run()], ray).counts() == {"done": 1}  # which ends the actor that nobody needs


@pytest.mark.long
def test_a_ray_of_our_own_ends_with_the_sweep_after_its_runs_have_saved(home, tasks_find_the_toy, monkeypatch, capfd):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = toy_run(seed=5, **SLOW)
    driver = start(home, [{"seed": 5, **SLOW}], 1, on="ray", cluster=["cluster.refresh=0.3"])
    begun(home, run, driver)
    os.kill(driver.pid, signal.SIGINT)
    code, output, report = finish(driver, PATIENCE)
    assert code == 130 and report["counts"] == {"interrupted": 1} and "saving their state" in output
    assert sweep(home, [run], on="ray", cluster=("cluster.refresh=0.3",)).counts() == {"done": 1}
    attempts = home.run(run.id).attempts()
    assert len(attempts) == 2 and read_attempt_meta(attempts[1])["restored_step"] > 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_a_second_interrupt_ends_the_runs_of_a_ray_of_our_own_at_once(home, tasks_find_the_toy, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = toy_run(seed=7, **SLOW)
    driver = start(home, [{"seed": 7, **SLOW}], 1, on="ray", cluster=["cluster.refresh=0.3"])
    begun(home, run, driver)
    for _ in range(2):
        os.kill(driver.pid, signal.SIGINT)
        time.sleep(0.1)
    code, _, report = finish(driver, PATIENCE)
    [attempt] = home.run(run.id).attempts()
    assert code == 130 and report["counts"] == {"interrupted": 1}
    assert read_outcome(attempt)["outcome"] == "interrupted"  # killed, or it has saved before


def test_a_ray_of_our_own_ends_also_when_the_sweep_is_killed(home, tasks_find_the_toy, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = toy_run(seed=6, **SLOW)
    driver = start(home, [{"seed": 6, **SLOW}], 1, on="ray", cluster=["cluster.refresh=0.3"])
    begun(home, run, driver)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate(timeout=PATIENCE)
    owner = json.loads(newest_record(home.run(run.id)).submission.manifest.read_text())["owner"]
    wait_for(lambda: not identification.runs(owner), timeout=PATIENCE)
    [attempt] = home.run(run.id).attempts()
    assert read_outcome(attempt)["outcome"] == "interrupted" and run_state(home.run(run.id)).state == "interrupted"


def test_a_ray_of_ones_own_can_not_be_reached_from_another_machine(home, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(plat_toy.__file__).parent))
    with listening() as sockets:
        report = sweep(home, [toy_run(seed=1)], on="ray", cluster=("cluster.address=local",))
    assert report.counts() == {"done": 1}
    assert {"gcs_server", "raylet"} <= {name for _, name in sockets.seen} and sockets.exposed == set()


@pytest.mark.long
def test_a_ray_over_several_nodes_asks_for_its_token(tmp_path):
    """Who has the token joins (as the nodes of a run do), who has not is refused; nothing is left in a file."""
    host = (
        "import ray, subprocess, sys\n"
        "from plat.trainer.private_ray import TOKEN, private_ray\n"
        "with private_ray(nodes=2) as elsewhere:\n"
        "    ray.init(address='local', num_cpus=1, include_dashboard=False, log_to_driver=False)\n"
        "    address = ray.get_runtime_context().gcs_address\n"
        "    for environment in (elsewhere, {key: elsewhere[key] for key in elsewhere if key != TOKEN}):\n"
        "        done = subprocess.run([sys.executable, '-c', sys.argv[1], address], env=environment)\n"
        "        print('joined' if done.returncode == 0 else 'refused', flush=True)\n"
    )
    guest = (
        "import sys\n"
        "from plat.trainer.private_ray import join_private_ray\n"
        "join_private_ray()\n"
        "import ray\n"
        "ray.init(address=sys.argv[1], log_to_driver=False)\n"
    )
    environment = {**os.environ, "HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_AUTH_MODE", None)
    command = [sys.executable, "-c", host, guest]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stdout.split()[-2:] == ["joined", "refused"], done.stdout + done.stderr
    assert not list(tmp_path.glob(".ray/*"))
