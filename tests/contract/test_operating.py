"""Operating runs that SLURM has: what the verbs say of them, and what cancelling and retrying do in its queue."""

from __future__ import annotations

import subprocess

import pytest
from clusters import QUICK
from sweep_processes import wait_for
from toy_runs import toy_run

from plat.cli import main
from plat.dispatch.driver import sweep
from plat.spec.expansion.experiment import load_experiments
from plat.store.home import Home
from plat.store.run_directory.state import run_state

FILE = """\
title: Toys
base: {trainer: "plat_toy:Toy", train.iterations: 6}
matrix: {seed: [0, 1]}
"""


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.cluster)])
def slurm(request):
    """The fake SLURM, or a real one."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def plat(home, capsys):
    """Give a command; its exit code and what it printed."""

    def given(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as left:
            main([*arguments, "--home", str(home.root)])
        return int(left.value.code or 0), capsys.readouterr().out

    return given


def follow(home, runs, *more, **options):
    return sweep(home, runs, on="slurm", cluster=(*QUICK, *more), **options)


def contents(home: Home) -> dict[str, bytes]:
    """Every file of a home."""
    files = (path for path in home.root.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def test_every_verb_says_what_slurm_knows_and_those_that_write_nothing_write_nothing(home, fake, plat, tmp_path):
    fake.set(slots=0)
    file = tmp_path / "toys.yaml"
    file.write_text(FILE)
    experiment = load_experiments([file], [])[0]
    run = experiment.runs[0].id
    follow(home, experiment.runs, experiments=[experiment], detach=True)
    assert "2 queued" in plat("plan", str(file))[1] and "job 101_" in plat("why", run)[1]
    subprocess.run(["scancel", "101"], check=True, timeout=30)
    before = contents(home)
    assert "2 missing" in plat("plan", str(file))[1]
    assert "SLURM says CANCELLED" in plat("why", run)[1]
    assert contents(home) == before
    assert "2 missing" in plat("status", str(file))[1] and "queued" not in plat("runs", str(file))[1]
    fake.set(slots=2)
    assert follow(home, experiment.runs).counts() == {"done": 2}
    assert "2 done of 2" in plat("watch", str(file))[1]


def test_cancelling_takes_runs_out_of_the_queue_and_spares_what_shares_their_task(home, fake, plat):
    fake.set(slots=0)
    runs = [toy_run(seed=seed) for seed in range(4)]
    follow(home, runs, "cluster.runs_per_task=2", detach=True)
    unwanted = [run.id for run in runs[:3]]
    assert plat("cancel", *unwanted)[1].count("asked to stop") == 3
    assert [task["state"] for task in fake.tasks()] == ["CANCELLED", "PENDING"]
    fake.set(slots=2)
    wait_for(home.run(runs[3].id).result.exists)
    wait_for(lambda: fake.tasks()[1]["state"] == "COMPLETED")
    assert not any(home.run(run).result.exists() or home.run(run).attempts() for run in unwanted)
    assert follow(home, runs, "cluster.runs_per_task=2").counts() == {"done": 4}


def test_a_run_that_is_cancelled_in_its_job_saves_and_the_job_leaves_the_queue(home, slurm, plat):
    run = toy_run(seed=1, iterations=3000, sleep=0.02)
    follow(home, [run], detach=True)
    wait_for(lambda: run_state(home.run(run.id)).step or None)
    assert plat("cancel", run.id) == (0, f"asked to stop: {run.name}\n")
    wait_for(lambda: not running_jobs())
    assert "interrupted" in plat("status")[1] and run_state(home.run(run.id)).outcome == "cancelled"
    assert list(home.run(run.id).attempt(1).checkpoints.iterdir())


def running_jobs() -> list[str]:
    """The jobs that have not ended."""
    command = ["squeue", "--noheader", "--states=all", "--format=%F|%K|%T|%j|%r|%k"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    return [line for line in listed.splitlines() if line.split("|")[2] in ("PENDING", "RUNNING", "COMPLETING")]


@pytest.mark.cluster
def test_a_failed_run_is_tried_again_where_it_is_asked_for(home, slurm, plat):
    runs = [toy_run(seed=1, mischief="nan"), toy_run(seed=2)]
    assert follow(home, runs).counts() == {"failed": 1, "done": 1}
    before = len(list(home.submissions.iterdir()))
    code, said = plat("retry", "--on", "slurm", *QUICK)
    assert code == 0 and "1 of 1 run is with the scheduler" in said
    assert "submitted job" in said and ": 1 run in 1 task\n" in said
    assert len(list(home.submissions.iterdir())) == before + 1
    wait_for(lambda: len(home.run(runs[0].id).attempts()) == 2)
    assert plat("watch")[0] == 3 and len(home.run(runs[1].id).attempts()) == 1
