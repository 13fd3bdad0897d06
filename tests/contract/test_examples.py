"""Two scripts of `examples/` on a real SLURM and a real Ray, with a kill of their jobs; run by hand (`chaos`)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from clusters import QUICK
from example_runs import ALONE, PATH, curves, curves_alone, has_checkpoint, one_run_of, runs_of, start_alone
from ray_cluster import on_ray
from stores import plat
from sweep_processes import wait_for

from plat.store.coordination.submissions import newest_record
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_attempt_meta

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]  # two minutes: run by hand


def kill_job_of_slurm(run: RunPaths) -> None:
    record = newest_record(run)
    job = f"{record.submission.job_id()}_{record.task}"
    subprocess.run(["scancel", "--signal=KILL", "--full", job], check=True, timeout=60)


def kill_actor_of_ray(run: RunPaths) -> None:
    record = newest_record(run)
    starts = record.submission.starts(record.task).read_text().splitlines()
    os.kill(json.loads(starts[-1])["pid"], signal.SIGKILL)


@pytest.mark.parametrize("name", ["real", "ray"])
def test_a_killed_job_goes_on_and_ends_with_the_numbers_of_the_script_alone(
    name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster: Any = request.getfixturevalue(name)
    monkeypatch.setenv("PATH", PATH)
    kill = kill_actor_of_ray if name == "ray" else kill_job_of_slurm
    place = ["--on", "ray", *on_ray(cluster)] if name == "ray" else ["--on", "slurm", "--wait", *QUICK]
    files, home = [str(one_run_of(example, tmp_path)) for example in ALONE], tmp_path / "home"
    sweep = ["sweep", *files, "--home", str(home), *place, "cluster.runs_per_task=1"]
    first = subprocess.Popen([sys.executable, "-m", "plat", *sweep], stdout=subprocess.DEVNULL)
    killed: set[str] = set()

    def waiting() -> dict[str, RunPaths]:
        return {example: run for example, run in runs_of(home).items() if example not in killed}

    while len(killed) < len(ALONE):  # each as soon as it can go on: the other may start much later
        wait_for(lambda: any(map(has_checkpoint, waiting().values())), timeout=120)
        for example, run in waiting().items():
            if has_checkpoint(run):
                kill(run)
                killed.add(example)
    first.wait(timeout=120)
    assert plat(*sweep) == 0
    for example, run in runs_of(home).items():
        (tmp_path / example).mkdir()
        assert read_attempt_meta(run.attempts()[-1])["restored_step"] > 0
        assert curves(run) == curves_alone(start_alone(example, tmp_path / example))
