"""One process of plat executes several scripts, one after another, and its end costs no run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sweep_processes import members, wait_for

from plat.processes.identification import process_start
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

Verb = Callable[..., tuple[int, str, str]]

# "worker" is the process of plat that has started the script.
HEAD = 'import json, os, signal, sys, time\nprint(json.dumps({"worker": os.getppid(), "seed": int(sys.argv[1])}))\n'


def experiment(folder: Path, lines: str, seeds: int, more: str = "") -> Path:
    (folder / "train.py").write_text(HEAD + lines)
    path = folder / "mine.yaml"
    base = "{trainer: script, script.command: 'python train.py {seed}'" + f"{more}}}"
    path.write_text(f"title: x\nbase: {base}\nmatrix: {{seed: range({seeds})}}\n")
    return path


def run_of(folder: Path, seed: int) -> RunPaths:
    """Return the run of a seed; its directory may not be there yet."""
    home = Home(folder / "plat-home")
    runs = (home.run(run_id) for run_id in home.run_ids())
    return next((run for run in runs if f"seed: {seed}\n" in run.config.read_text()), home.run("0" * 16))


def is_done(folder: Path, seed: int) -> bool:
    return run_of(folder, seed).result.exists()


def workers_of(folder: Path, seed: int) -> list[int]:
    """Return the process that has executed each attempt of the run of this seed."""
    logs = [attempt.log.read_text() for attempt in run_of(folder, seed).attempts()]
    return [int(pid) for log in logs for pid in re.findall(r'^{"worker": (\d+)', log, re.MULTILINE)]


def end(sweep: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a sweep that leads a session."""
    for pid in members(sweep.pid):
        os.kill(pid, signal.SIGKILL)
    sweep.wait()


def test_a_failed_run_ends_its_worker_and_finished_ones_do_not(plat: Verb, project: Path) -> None:
    path = experiment(project, "sys.exit(sys.argv[1] == '2')\n", seeds=5)
    assert plat("sweep", path, "--jobs", 1)[0] == 3
    first, second, failed, fourth, fifth = [workers_of(project, seed) for seed in range(5)]
    assert first == second == failed and fourth == fifth and set(first).isdisjoint(fourth)
    logs = [run_of(project, seed).attempt(1).log.read_text() for seed in range(5)]
    seeds = [re.findall(r'^{"worker": .*, "seed": (.*)}$', log, re.MULTILINE) for log in logs]
    assert seeds == [["0"], ["1"], ["2"], ["3"], ["4"]]


def test_a_worker_that_is_killed_costs_an_attempt_of_one_run(plat: Verb, project: Path) -> None:
    lines = "if sys.argv[1] == '1' and not os.path.exists('killed'):\n"
    lines += "    open('killed', 'w').close()\n    os.kill(os.getppid(), signal.SIGKILL)\n    time.sleep(60)\n"
    assert plat("sweep", experiment(project, lines, seeds=3), "--jobs", 1)[0] == 0
    assert [len(run_of(project, seed).attempts()) for seed in range(3)] == [1, 2, 1]
    before, again, after = [workers_of(project, seed)[-1] for seed in range(3)]
    assert before != again == after


@pytest.mark.parametrize("killed", ["worker", "sweep"])
def test_a_waiting_worker_may_die_and_does_not_outlive_the_sweep(project: Path, killed: str) -> None:
    lines = "while sys.argv[1] == '0' and not os.path.exists('go'):\n    time.sleep(0.05)\n"
    command = [sys.executable, "-m", "plat", "sweep", experiment(project, lines, seeds=2), "--jobs", "2"]
    sweep = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, start_new_session=True)
    wait_for(lambda: is_done(project, 1), sweep)
    (worker,) = workers_of(project, 1)
    assert process_start(worker) is not None and not is_done(project, 0)
    os.kill(worker if killed == "worker" else sweep.pid, signal.SIGKILL)
    wait_for(lambda: process_start(worker) is None)
    (project / "go").touch()
    assert sweep.wait(60) == (0 if killed == "worker" else -signal.SIGKILL)
    wait_for(lambda: members(sweep.pid) == [])
    assert is_done(project, 0) == (killed == "worker")


def test_a_stopped_worker_that_waits_does_not_hold_up_the_end(project: Path) -> None:
    lines = "while sys.argv[1] == '0' and not os.path.exists('go'):\n    time.sleep(0.05)\n"
    command = [sys.executable, "-m", "plat", "sweep", experiment(project, lines, seeds=2), "--jobs", "2"]
    shown = project / "shown.txt"
    with shown.open("w") as output:
        sweep = subprocess.Popen(command, cwd=project, stdout=output, start_new_session=True)
    try:
        # Stopped earlier, between the release of its lease and its answer to the sweep, it would count as busy.
        wait_for(lambda: "finished" in shown.read_text(), sweep)
        (worker,) = workers_of(project, 1)
        os.kill(worker, signal.SIGSTOP)
        (project / "go").touch()
        assert sweep.wait(60) == 0 and process_start(worker) is None
    finally:
        end(sweep)


def test_workers_that_wait_with_another_environment_do_not_pile_up(plat: Verb, project: Path) -> None:
    lines = "server = open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1]\n"
    lines += "siblings = open(f'/proc/{server}/task/{server}/children').read().split()\n"
    lines += "print(json.dumps({'workers': len(siblings)}))\n"
    path = experiment(project, lines, seeds=1, more=", seed: 0")
    path.write_text(path.read_text().replace("seed: range(1)", "script.threads: [1, 2, 3, 4, 5]"))
    assert plat("sweep", path, "--jobs", 1)[0] == 0
    home = Home(project / "plat-home")
    logs = [home.run(run_id).attempt(1).log.read_text() for run_id in home.run_ids()]
    counts = [int(count) for log in logs for count in re.findall(r'{"workers": (\d+)}', log)]
    assert len(counts) == 5 and max(counts) <= 2  # one that ends may still be there


def test_more_jobs_than_open_files_allow_fail_alone(project: Path) -> None:
    path = experiment(project, "time.sleep(1)\n", seeds=20)
    command = [
        "bash",
        "-c",
        'ulimit -n 32; exec "$@"',
        "bash",
        sys.executable,
        "-m",
        "plat",
        "sweep",
        path,
        "--jobs",
        "20",
    ]
    sweep = subprocess.run(command, cwd=project, capture_output=True, text=True)
    assert sweep.returncode == 3 and "cannot start a process: Too many open files" in sweep.stdout
    assert is_done(project, 0), sweep.stdout
