"""Importers of several homes, as processes, that write the same runs into one store at once and are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.store.home import Home
from plat.store.mlflow.client_runs import is_twin
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.stored_runs import is_active

WORKER = """
import sys
from pathlib import Path
from plat.store.home import Home
from plat.store.mlflow.importer import import_runs
home = Home(Path(sys.argv[1]))
print("ready", flush=True)
import_runs(home, sys.argv[2])
"""


def copies_of(source: Home, folder: Path, count: int) -> list[Home]:
    """So many homes that share no file with the source and have its runs."""
    homes = [Home(folder / f"node{number}").create() for number in range(count)]
    for home in homes:
        shutil.copytree(source.runs, home.runs, dirs_exist_ok=True)
    return homes


def one_round(homes: Sequence[Home], uri: str, rng: random.Random, kills: int, within: float) -> list[str]:
    """Import all homes at once; so many importers are killed within some seconds and started again. What went wrong."""
    workers = [_started(home, uri) for home in homes]
    moments = sorted((rng.uniform(0.0, within), number) for number in rng.sample(range(len(homes)), kills))
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    begun = time.monotonic()
    for moment, number in moments:
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        os.kill(workers[number].pid, signal.SIGKILL)
        workers[number].communicate()
        workers[number] = _started(homes[number], uri)
    ends = [(worker.communicate(timeout=300)[1], worker.returncode) for worker in workers]
    return [f"exit {code}: {said[-2000:]}" for said, code in ends if code != 0]


def _started(home: Home, uri: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(home.root), uri]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def stages(uri: str) -> tuple[Counter[str], list[Any]]:
    """How often each plat id, and each file's own run, is active; and the runs in MLflow's bin that are no twins."""
    from mlflow.entities import ViewType

    client = mlflow_client(uri)
    experiments = [experiment.experiment_id for experiment in client.search_experiments(max_results=1000)]
    runs = list(client.search_runs(experiments, "", ViewType.ALL, max_results=10_000))
    names = [run.data.tags.get("plat.id") or "file " + run.data.tags["plat.file"] for run in runs if is_active(run)]
    return Counter(names), [run for run in runs if not is_active(run) and not is_twin(run)]
