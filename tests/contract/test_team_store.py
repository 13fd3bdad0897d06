"""A team's store: several nodes, each with a home of its own, sweep into one `mlflow server` over a real PostgreSQL.

The server is killed and started again in the middle. Runs of the same identity are executed on several nodes at once.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters import TOY
from many_importers import copies_of, one_round, stages
from runner_runs import make
from store_dump import dump
from sweep_processes import wait_for

from plat.errors import StoreError
from plat.runner.execution import execute
from plat.store.home import Home

EXPERIMENT = """\
title: Random walks of a team
base: {trainer: "plat_toy:Toy", train.iterations: 100, sleep: 0.02}
matrix: {seed: range(8)}
"""
NODES = {"first": "range(0,4)", "second": "range(2,6)", "third": "range(4,8)"}  # seeds 2 to 5 on two nodes each


@pytest.fixture
def plat() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`plat(folder, store, verb, ...)` starts a verb on the node whose disk is the folder."""
    started: list[subprocess.Popen[str]] = []

    def start(folder: Path, store: str, verb: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "plat", verb, *arguments, "--home", str(folder / "home"), "--store", store]
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(TOY)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.long
@pytest.mark.cluster
@pytest.mark.parametrize("rounds", [3, pytest.param(20, marks=pytest.mark.chaos)])
def test_eight_importers_that_are_killed_store_each_run_once(server, tmp_path, rounds):
    source, rng = Home(tmp_path / "source").create(), random.Random(7)
    for number in range(rounds):
        for seed in range(3):
            execute(source, make(source, seed=3 * number + seed).id)
        homes = copies_of(source, tmp_path / f"round{number}", 8)
        assert one_round(homes, server.url, rng, kills=3, within=4.0) == []
    active, unexplained = stages(server.url)
    assert set(active.values()) == {1} and len(active) == 3 * rounds + 1 and unexplained == []


def finished(folder: Path) -> int:
    """How many runs have a result on any node."""
    return len(list(folder.glob("*/home/runs/*/*/result.json")))


def stored_runs(store: str) -> dict[str, Any]:
    """What a store holds of each run, by plat's id; the runs that carry reports are left out."""
    (content,) = [runs for runs in dump(store).values() if runs]
    return {name: run for name, run in content.items() if not name.startswith("file ")}


@pytest.mark.long
@pytest.mark.cluster
def test_a_team_loses_nothing_when_its_server_is_killed_and_comes_back(server, plat, tmp_path):
    nodes = {name: tmp_path / name for name in (*NODES, "alone")}
    for folder in nodes.values():
        folder.mkdir()
        (folder / "walks.yaml").write_text(EXPERIMENT)
    sweeps = {
        name: plat(nodes[name], server.url, "sweep", "walks.yaml", f"matrix.seed={seeds}", "--jobs", "1")
        for name, seeds in NODES.items()
    }
    wait_for(lambda: finished(tmp_path) >= 3, timeout=600)
    server.end(signal.SIGKILL)
    before = finished(tmp_path)
    wait_for(lambda: finished(tmp_path) > before, timeout=600)
    server.start()
    for name, sweep in sweeps.items():
        output = sweep.communicate(timeout=600)[0]
        assert sweep.returncode in (0, StoreError.exit_code) and "Traceback" not in output, (name, output)
    assert finished(tmp_path) == 12
    for name in NODES:
        synced = plat(nodes[name], server.url, "sync", "walks.yaml")
        output = synced.communicate(timeout=600)[0]
        assert synced.returncode == 0, (name, output)
    local = f"sqlite:///{nodes['alone'] / 'mlflow.db'}"
    alone = plat(nodes["alone"], local, "sweep", "walks.yaml")
    output = alone.communicate(timeout=600)[0]
    assert alone.returncode == 0, output
    held = stored_runs(server.url)
    assert held == stored_runs(local) and len(held) == 8
