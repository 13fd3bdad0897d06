"""One run with verl over two nodes, on a real SLURM and on a real Ray (marked `cluster`).

Its Ray has a node on each of the run's nodes. The run is put back into the queue once, goes on from its checkpoint, of
which each node wrote a part, and leaves no process behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray_cluster import on_ray

from plat.dispatch.driver import sweep
from plat.processes.process_tree import MARK
from plat.spec.expansion.experiment import build_run
from plat.spec.expansion.run import Run
from plat.store.coordination.submissions import newest_record
from plat.store.home import Home
from plat.store.run_directory.run_files import read_attempt_meta, read_outcome

pytestmark = pytest.mark.cluster
PATIENCE = 540  # seconds; starting Ray and verl takes most of them on a busy machine


def two_node_run() -> Run:
    shape = ("train.iterations=3", "eval.every=3", "eval.heldout=0", "mi.probe=0", "early_stop.variance_window=0")
    algorithm = ("task=sokoban", "algorithm=grpo", "filter=top_p")
    return build_run(["trainer=verl", "scale=smoke", "verl.nodes=2", *algorithm, *shape])


def happens(condition: Callable[[], bool], within: float) -> None:
    until = time.monotonic() + within
    while not condition():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.5)


def begun(home: Home, run: Run) -> None:
    """It has a whole checkpoint of a later step than the first."""
    happens(lambda: any(int(folder.name.split("-")[1]) >= 1 for folder in checkpoints(home, run)), PATIENCE)


def checkpoints(home: Home, run: Run) -> list[Path]:
    return [folder for attempt in home.run(run.id).attempts() for folder in attempt.checkpoints.glob("step-*")]


def went_on_over_two_nodes(home: Home, run: Run) -> None:
    """The second attempt finished, from a checkpoint with a part of each node."""
    first, second = home.run(run.id).attempts()
    assert read_outcome(second)["outcome"] == "finished"
    assert read_attempt_meta(second)["restored_step"] >= 1
    for attempt in (first, second):
        parts = {path.name for path in attempt.checkpoints.rglob("model_world_size_*.pt")}
        assert parts == {"model_world_size_2_rank_0.pt", "model_world_size_2_rank_1.pt"}


def leaves_nothing(home: Home, run: Run) -> None:
    """No process of the run is there that carries its directory in the environment."""
    mark = os.path.realpath(home.run(run.id).root)
    happens(lambda: not [process for process in psutil.process_iter() if environment(process).get(MARK) == mark], 60)


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}


def command_lines(word: str) -> dict[int, str]:
    """The command lines with this word, by process."""
    lines = {process.pid: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
    return {pid: line for pid, line in lines.items() if word in line}


@pytest.mark.long
def test_on_slurm_a_run_over_two_nodes_is_requeued_once_and_ends_finished(home: Home, real: Any) -> None:
    run = two_node_run()
    settings = ("cluster.refresh=1", "cluster.accept_within=5", "cluster.time=60")
    assert sweep(home, [run], on="slurm", cluster=settings, detach=True).counts() == {"queued": 1}
    begun(home, run)
    job = newest_record(home.run(run.id)).submission.job_id()
    nodes = subprocess.run(["squeue", "-h", "-j", job, "-o", "%D"], capture_output=True, text=True, timeout=60).stdout
    assert nodes.split() == ["2"]
    subprocess.run(["scontrol", "requeue", str(job)], check=True, timeout=60)
    assert sweep(home, [run], on="slurm", cluster=settings).counts() == {"done": 1}
    went_on_over_two_nodes(home, run)
    leaves_nothing(home, run)


@pytest.mark.long
def test_on_ray_a_run_over_two_nodes_loses_its_worker_once_and_ends_finished(home: Home, ray: Any) -> None:
    run = two_node_run()
    assert sweep(home, [run], on="ray", cluster=on_ray(ray), detach=True).counts() == {"queued": 1}
    begun(home, run)
    record = newest_record(home.run(run.id))
    starts = record.submission.starts(record.task)
    os.kill(json.loads(starts.read_text().splitlines()[0])["pid"], signal.SIGKILL)
    assert sweep(home, [run], on="ray", cluster=on_ray(ray)).counts() == {"done": 1}
    assert len(starts.read_text().splitlines()) == 2
    went_on_over_two_nodes(home, run)
    leaves_nothing(home, run)


# Starts a program on the other node of its job, and waits. The program gets a word by which it is found.
JOB = """#!{python}
import subprocess, sys, time
from plat.trainer.allocation import command_on_others
program = [sys.executable, "-c", "import time; time.sleep(600)", "{word}"]
subprocess.Popen(command_on_others(1, program), stdin=subprocess.PIPE)
time.sleep(600)
"""


def test_what_a_job_of_slurm_has_started_on_another_node_ends_with_the_killed_job(real: Any, tmp_path: Path) -> None:
    script, word = tmp_path / "job.py", f"plat-test-{os.getpid()}-{time.time_ns()}"
    script.write_text(JOB.format(python=sys.executable, word=word))
    options = ["--parsable", "-N", "2", "--ntasks-per-node=1", "-t", "10", "-o", str(tmp_path / "out.txt")]
    job = subprocess.run(["sbatch", *options, str(script)], capture_output=True, text=True, check=True, timeout=60)
    try:
        program = f"{sys.executable} -c import time"
        happens(lambda: any(line.startswith(program) for line in command_lines(word).values()), 120)
        holder = psutil.Process(min(command_lines(word))).parent()
        assert holder is not None and "slurm_script" in " ".join(holder.cmdline())
        holder.kill()
        happens(lambda: not command_lines(word), 60)
    finally:
        subprocess.run(["scancel", job.stdout.strip()], timeout=60)


# What a run finds on a Ray where another one is: the actor that TransferQueue has for a whole cluster.
COMPANY = """
import ray
from plat.errors import RunError
from plat_rl.verl.machines.private_cluster import refuse_company
ray.init(address="{address}", log_to_driver=False)
refuse_company()
class Controller: ...
other = ray.remote(Controller).options(name="TransferQueueController", namespace="transfer_queue", num_cpus=0).remote()
ray.get(other.__ray_ready__.remote())
try:
    refuse_company()
except RunError as error:
    print(error.what)
"""


def test_a_ray_that_another_run_uses_is_not_joined(ray: Any) -> None:
    script = COMPANY.format(address=ray.address)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert "another run of verl uses this Ray cluster" in done.stdout, done.stderr
