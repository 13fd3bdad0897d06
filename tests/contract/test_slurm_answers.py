"""What --on slurm does about answers that are none, records that were cut off, and jobs that cannot begin."""

from __future__ import annotations

import os

import pytest
from clusters import QUICK
from toy_runs import toy_run

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.driver import sweep
from plat.dispatch.schedulers import cancel_runs
from plat.dispatch.setting import PENDING
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.slurm_refresh import refresh, task_states
from plat.store.coordination.submissions import newest_record
from plat.store.run_directory import lease
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state


def follow(home, runs, *more, **options):
    return sweep(home, runs, on="slurm", cluster=(*QUICK, *more), **options)


def queued(home, fake, *more):
    """A run whose job SLURM has accepted and not started, and its submission."""
    fake.set(slots=0)
    run = toy_run()
    assert follow(home, [run], *more, detach=True).counts() == {"queued": 1}
    return run, newest_record(home.run(run.id)).submission


@pytest.mark.parametrize("together", [1, 2])  # an array, and a plain job
def test_a_job_whose_number_sbatch_does_not_say_is_looked_for(home, fake, together):
    fake.set(says={"sbatch": "thank you, your job 5 of today was taken\n"})
    runs = [toy_run(seed=seed) for seed in range(2)]
    assert follow(home, runs, f"cluster.runs_per_task={together}").counts() == {"done": 2}
    assert fake.calls()["sbatch"] == 1 and all(len(home.run(run.id).attempts()) == 1 for run in runs)


@pytest.mark.parametrize("together", [1, 2])
def test_a_number_in_a_message_of_the_site_is_not_the_jobs(home, fake, together):
    fake.set(slots=0, says={"sbatch": "at most job 5 at once\n%job 7 is yours, too\n"})
    runs = [toy_run(seed=seed) for seed in range(2)]
    follow(home, runs, f"cluster.runs_per_task={together}", detach=True)
    assert newest_record(home.run(runs[0].id)).submission.job_id() == "101" and fake.calls()["sbatch"] == 1


def test_a_text_that_is_no_list_of_jobs_is_no_answer(home, fake):
    run, submission = queued(home, fake)
    os.utime(submission.job, (0, 0))  # it is old enough to be listed
    for said in ("closed for maintenance\n", "", "ARRAY_JOB_ID|ARRAY_TASK_ID|STATE|NAME\n101|N/A|PEN\n"):
        fake.set(says={"squeue": said})
        with pytest.raises(SchedulerError, match="squeue does not answer as SLURM does") as error:
            refresh(home, Slurm())
        assert error.value.where == "squeue" and "give `squeue` by hand" in error.value.fix
        assert run_state(home.run(run.id)).state == "queued"
    fake.set(says={"squeue": "open again | see a|b|c|d\n%"})
    assert [state.phase for state in task_states(home).values()] == [PENDING]


@pytest.mark.parametrize("together", [1, 2])
def test_a_wckey_and_options_without_a_value_reach_sbatch(home, fake, together):
    fake.set(slots=0)
    runs = [toy_run(seed=seed) for seed in range(2)]
    options = [
        "cluster.slurm_wckey=course",
        "cluster.slurm_additional_parameters={contiguous: true, spread-job: false}",
    ]
    follow(home, runs, *options, f"cluster.runs_per_task={together}", detach=True)
    root = newest_record(home.run(runs[0].id)).submission.root
    lines = next(root.glob("101*_submission.sh")).read_text().splitlines()
    assert "#SBATCH --wckey=course" in lines and "#SBATCH --contiguous" in lines
    assert not any("spread-job" in line for line in lines)


@pytest.mark.parametrize("what", ["config", "partition"])
def test_other_answers_that_are_none_submit_nothing(fake, what):
    fake.set(says={"scontrol": "closed for maintenance\n"})
    with pytest.raises(SchedulerError, match=f"scontrol show {what} does not answer as SLURM does") as error:
        Slurm().site() if what == "config" else Slurm().default_minutes("low")
    assert not error.value.certain


def test_an_sbatch_that_never_answers_clearly_is_called_a_few_times(home, fake):
    fake.set(refuse="Socket timed out on send/recv operation")
    run = toy_run()
    report = follow(home, [run], "cluster.accept_within=0")
    reason = report.ends[run.id].reason
    assert report.counts() == {"missing": 1} and fake.calls()["sbatch"] == 3
    assert "3 times, and SLURM has none of these jobs" in reason and "Socket timed out" in reason
    assert "see what `sbatch --wrap true` says here" in reason


@pytest.mark.parametrize("content", ["", '{"job": "10'])
def test_a_number_that_was_cut_off_is_learnt_again(home, fake, content):
    run, submission = queued(home, fake)
    submission.job.write_text(content)
    assert follow(home, [run], detach=True).counts() == {"queued": 1}
    assert submission.job_id() == "101" and fake.calls()["sbatch"] == 1
    submission.job.write_text(content)
    cancel_runs(home, [run.id])
    assert [task["state"] for task in fake.tasks()] == ["CANCELLED"]


def test_a_run_that_another_process_executes_is_running(home, fake):
    fake.set(slots=0)
    here, there = toy_run(seed=0), toy_run(seed=1)
    held = lease.take(create(home, here, ""))
    report = follow(home, [here, there], detach=True)
    held.release()
    assert report.counts() == {"running": 1, "queued": 1}
    assert "another process executes it" in report.ends[here.id].reason


def test_a_job_that_cannot_begin_names_its_output(home, fake):
    run = toy_run()
    report = follow(home, [run], "cluster.setup=exit 7")
    log = newest_record(home.run(run.id)).log
    assert report.counts() == {"failed": 1} and report.ends[run.id].reason.endswith(f"see {log}")
    assert run_state(home.run(run.id)).reason == f"its job ended before it began: SLURM says FAILED; see {log}"


def test_a_job_that_could_not_begin_while_nobody_watched_is_named_too(home, fake):
    run, submission = queued(home, fake)
    fake.fail_node(fake.tasks()[0]["name"])
    submission.note_over("failed:node", "SLURM says NODE_FAIL", 0)
    state = run_state(home.run(run.id))
    assert state.state == "missing"
    assert state.reason == f"its job ended before it began: SLURM says NODE_FAIL; see {submission.root}/task-0.txt"


def test_a_command_that_takes_too_long_is_named_with_what_to_do(tmp_path, monkeypatch):
    for name in ("scontrol", "scancel"):
        (tmp_path / name).write_text("#!/bin/sh\nexec sleep 60\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for name, call in {"scontrol": Slurm(0.1).site, "scancel": lambda: Slurm(0.1).cancel(["101"])}.items():
        with pytest.raises(SchedulerError, match=f"{name} has not answered for 0.1 s") as error:
            call()
        assert error.value.where.startswith(name) and "raise command_timeout" in error.value.fix
