"""What --on slurm promises beyond every dispatcher, on the fake SLURM, which can be told what is to go wrong."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections import Counter

import pytest
from clusters import QUICK
from sweep_processes import Recorder, wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.dispatcher import SchedulerError
from plat.dispatch.driver import sweep
from plat.dispatch.schedulers import cancel_runs
from plat.dispatch.setting import OVER
from plat.dispatch.slurm.commands import Slurm
from plat.dispatch.slurm.slurm_refresh import ask, refresh, task_states
from plat.store.coordination.submissions import newest_record, open_submissions
from plat.store.home import Home
from plat.store.run_directory.state import run_state


def follow(home, runs, *more, **options):
    return sweep(home, runs, on="slurm", cluster=(*QUICK, *more), **options)


def state_of(home, run):
    return run_state(home.run(run.id)).state


def all_done(home, runs):
    return all(home.run(run.id).result.exists() for run in runs)


def test_it_submits_and_leaves_and_the_same_command_follows(home, fake):
    fake.set(slots=0)
    runs = [toy_run(seed=seed) for seed in range(5)]
    report = follow(home, runs, "cluster.runs_per_task=2", detach=True)
    assert report.counts() == {"queued": 5} and report.exit_code == 0
    assert [(task["job"], task["index"]) for task in fake.tasks()] == [(101, 0), (101, 1), (101, 2)]
    assert report.ends[runs[4].id].reason == "job 101_2 on fake" and state_of(home, runs[0]) == "queued"
    assert follow(home, runs, detach=True).counts() == {"queued": 5}
    here = sweep(home, runs, 2)
    assert here.counts() == {"queued": 5} and here.exit_code == 3
    fake.set(slots=2)
    wait_for(lambda: all(task["state"] == "COMPLETED" for task in fake.tasks()))
    assert follow(home, runs).counts() == {"done": 5}
    assert fake.calls()["sbatch"] == 1 and all(len(home.run(run.id).attempts()) == 1 for run in runs)
    task_states(home)
    assert open_submissions(home) == []


def test_what_ran_without_anybody_watching_is_found_done(home, fake):
    runs = [toy_run(seed=seed) for seed in range(2)]
    follow(home, runs, detach=True)
    wait_for(lambda: all_done(home, runs))
    assert follow(home, runs, detach=True).counts() == {"done": 2} and fake.calls()["sbatch"] == 1


@pytest.mark.parametrize("fault", ["hang_sbatch", "lose_sbatch"])
def test_a_submission_that_was_not_answered_is_looked_for_before_another_is_made(home, fake, fault):
    fake.set(**{fault: 1})
    runs = [toy_run(seed=seed) for seed in range(2)]
    report = follow(home, runs, "cluster.command_timeout=2", "cluster.runs_per_task=2")
    assert report.counts() == {"done": 2}
    assert len({task["job"] for task in fake.tasks()}) == 1
    assert all(len(home.run(run.id).attempts()) == 1 for run in runs)


def test_errors_of_every_command_now_and_then_do_no_harm(home, fake):
    fake.set(errors=0.2)
    runs = [toy_run(seed=seed) for seed in range(6)]
    while True:
        try:
            report = follow(home, runs, "cluster.runs_per_task=3")
            break
        except SchedulerError:  # not even the first question was answered
            continue
    assert report.counts() == {"done": 6}
    assert all(len(home.run(run.id).attempts()) == 1 for run in runs)


@pytest.mark.parametrize(
    "accounting", ["off", *(pytest.param(word, marks=pytest.mark.cluster) for word in ("on", "late"))]
)
def test_a_task_that_ended_without_a_word_is_over_with_and_without_accounting(home, fake, accounting):
    """Its history is purged at once, and the accounting may know nothing (yet)."""
    fake.set(accounting=accounting, late=1000.0, min_job_age=0.0, requeue=False)
    run = toy_run(seed=1, iterations=60, sleep=0.05)
    thread, reports = _in_thread(home, [run])
    wait_for(lambda: (run_state(home.run(run.id)).step or 0) > 6)
    fake.fail_node(fake.tasks()[0]["name"])
    thread.join()
    assert reports[0].counts() == {"done": 1}
    assert len(home.run(run.id).attempts()) == 2 and no_step_twice(home.run(run.id))


def test_what_slurm_refuses_is_said_and_nothing_is_left_behind(home, fake):
    fake.set(refuse="Invalid partition name specified")
    runs = [toy_run(seed=seed) for seed in range(2)]
    report = follow(home, runs, detach=True)
    assert report.counts() == {"missing": 2} and report.exit_code == 3
    assert "Invalid partition name" in report.ends[runs[0].id].reason and open_submissions(home) == []
    fake.set(refuse="")
    assert follow(home, runs).counts() == {"done": 2}


def test_a_partition_that_is_not_there_is_refused_and_several_may_be_named(home, fake):
    run = toy_run()
    report = follow(home, [run], "cluster.slurm_partition=low,nope")
    assert report.counts() == {"missing": 1}
    assert "there is no partition 'nope' on this cluster, only low, high" in report.ends[run.id].reason
    assert follow(home, [run], "cluster.slurm_partition=low,high").counts() == {"done": 1}
    submission = newest_record(home.run(run.id)).submission
    assert submission.facts()["minutes"] == 30


def test_another_cluster_neither_gives_up_nor_cancels_runs(home, fake):
    """Two clusters share a home, and the second knows nothing of the first one's jobs."""
    fake.set(slots=0)
    run = toy_run()
    follow(home, [run], detach=True)
    submission = newest_record(home.run(run.id)).submission
    os.utime(submission.job, (0, 0))  # it is old enough to be listed
    fake.set(cluster_name="second")
    assert follow(home, [run], detach=True).counts() == {"queued": 1} and len(fake.tasks()) == 1
    with pytest.raises(SchedulerError, match="is on the cluster fake, and this machine's SLURM is second"):
        cancel_runs(home, [run.id])
    assert [task["state"] for task in fake.tasks()] == ["PENDING"]


def test_variables_of_sbatch_and_of_a_task_do_not_reach_the_job(home, fake, monkeypatch):
    """The command may itself be given in a task of an array."""
    variables = {"SBATCH_JOB_NAME": "mine", "SLURM_ARRAY_JOB_ID": "77", "SLURM_ARRAY_TASK_ID": "3"}
    for name, value in {**variables, "SLURM_RESTART_COUNT": "4"}.items():
        monkeypatch.setenv(name, value)
    fake.set(max_array_size=0)  # a site without arrays
    report = follow(home, [toy_run()])
    assert report.counts() == {"done": 1}, report.ends
    assert os.environ["SLURM_ARRAY_JOB_ID"] == "77"


def test_a_question_that_is_not_answered_concludes_nothing(home, fake):
    fake.set(slots=0)
    run = toy_run()
    follow(home, [run], detach=True)
    fake.set(errors=1.0)
    assert task_states(home) == {} and state_of(home, run) == "queued"


def test_a_job_that_the_site_hides_is_not_taken_for_gone(home, fake, monkeypatch):
    """Another user's, on a site with PrivateData=jobs. On other sites everybody sees when a job is gone."""
    fake.set(slots=0, hidden="alice")
    run = toy_run()
    monkeypatch.setenv("LOGNAME", "alice")
    follow(home, [run], "cluster.accept_within=0", detach=True)
    monkeypatch.setenv("LOGNAME", "bob")
    refresh(home, Slurm())
    assert state_of(home, run) == "queued"
    fake.set(hidden="", min_job_age=0.0)
    _call("scancel", "101")
    refresh(home, Slurm())
    assert state_of(home, run) == "missing"


def test_a_slow_site_has_the_time_of_its_profile_whoever_asks(home, fake):
    """`plat status` and the start of a sweep ask without a profile: the submission says how long its site may take."""

    class Slow(Slurm):
        def tasks(self, names):
            return []  # it accepted the job, and lists it later

    fake.set(slots=0)
    runs = {seconds: toy_run(seed=seconds) for seconds in (30, 3600)}
    for seconds, run in runs.items():
        follow(home, [run], f"cluster.accept_within={seconds}", detach=True)
        job = newest_record(home.run(run.id)).submission.job
        os.utime(job, (time.time() - 120, time.time() - 120))
    seen = ask(home, Slow(), lambda then, submission: time.time() - then).tasks
    assert [state.phase for state in seen.values()] == [OVER]
    refresh(home, Slow())
    assert state_of(home, runs[3600]) == "queued" and state_of(home, runs[30]) == "missing"


def test_a_failed_node_a_requeue_and_a_preemption_go_on_from_the_checkpoint(home, fake, tmp_path):
    run = toy_run(seed=3, iterations=150, sleep=0.05, checkpoint_every=5)
    calm = Home(tmp_path / "calm").create()
    reference = toy_run(seed=3, iterations=150, checkpoint_every=5)
    sweep(calm, [reference], 1)
    thread, reports = _in_thread(home, [run])

    def disturbed(how):
        begun = (run_state(home.run(run.id)).step or 0) + 8
        wait_for(lambda: (run_state(home.run(run.id)).step or 0) > begun)
        restarts = fake.tasks()[0]["restarts"]
        how()
        wait_for(lambda: fake.tasks()[0]["restarts"] > restarts and fake.tasks()[0]["state"] == "RUNNING")

    name = "101"  # a task that is alone is a plain job
    disturbed(lambda: fake.fail_node(name))
    disturbed(lambda: _call("scontrol", "requeue", name))
    disturbed(lambda: _call("scancel", "--signal=USR2", "--batch", name))
    thread.join()
    assert reports[0].counts() == {"done": 1} and fake.calls()["sbatch"] == 1
    paths = home.run(run.id)
    assert len(paths.attempts()) == 4 and no_step_twice(paths)
    parts = ("metrics", "tables", "checkpoint")
    ours, theirs = comparable(paths), comparable(calm.run(reference.id))
    assert [ours[part] for part in parts] == [theirs[part] for part in parts]


def test_a_time_limit_is_met_with_a_checkpoint_and_a_run_that_gets_nowhere_fails(home, fake):
    """SLURM's signal comes 120 s ahead of the limit; here the clock is pushed there."""
    moves = toy_run(seed=4, iterations=60, sleep=0.05)
    thread, reports = _in_thread(home, [moves], "cluster.time=10")
    wait_for(lambda: (run_state(home.run(moves.id)).step or 0) > 5)
    fake.advance(9 * 60)
    wait_for(lambda: fake.tasks()[0]["restarts"] == 1)
    thread.join()
    assert reports[0].counts() == {"done": 1} and len(home.run(moves.id).attempts()) == 2


def test_runs_that_ask_for_different_things_go_into_different_arrays(home, fake):
    fake.set(slots=0, max_array_size=4)
    runs = [toy_run(seed=seed) for seed in range(10)]
    follow(home, runs, "cluster.runs_per_task=1", detach=True)
    sizes = {}
    for task in fake.tasks():
        sizes[task["job"]] = sizes.get(task["job"], 0) + 1
    assert list(sizes.values()) == [4, 4, 2]


@pytest.mark.parametrize("count", [40, pytest.param(1000, marks=pytest.mark.cluster)])
def test_many_runs_of_one_class_are_few_calls(home, fake, count):
    """At most three submissions, and one question for each refresh, however many runs there are."""
    kinds = ["none"] * 17 + ["error", "nan", "collapse"]
    runs = [toy_run(seed=seed, iterations=1, at=1, mischief=kinds[seed % 20]) for seed in range(count)]
    started = time.monotonic()
    report = follow(home, runs, f"cluster.runs_per_task={count // 4}", "cluster.refresh=2")
    refreshes = (time.monotonic() - started) / 2 + 2
    assert report.counts() == {"done": count * 18 // 20, "failed": count * 2 // 20}
    outcomes = Counter(end.outcome for end in report.ends.values())
    twentieth = count // 20
    assert (
        outcomes["failed:error"] == outcomes["failed:nan"] == outcomes["stopped:reward_variance_collapse"] == twentieth
    )
    calls = fake.calls()
    assert calls["sbatch"] <= 3 and calls["scontrol"] <= 2 and calls["squeue"] <= refreshes
    assert calls.get("sacct", 0) <= refreshes


def test_a_task_whose_runs_were_given_to_another_does_nothing(home, fake):
    """It was given up (wrongly, say), and submitted again: the first job comes to life all the same."""
    fake.set(slots=0)
    run = toy_run()
    follow(home, [run], detach=True)
    newest_record(home.run(run.id)).submission.note_over(None, "given up")
    follow(home, [run], detach=True)
    fake.set(slots=2)
    wait_for(lambda: all(task["state"] == "COMPLETED" for task in fake.tasks()))
    assert len(fake.tasks()) == 2 and len(home.run(run.id).attempts()) == 1


def _in_thread(home, runs, *more):
    reports = []
    recorder = Recorder()
    thread = threading.Thread(target=lambda: reports.append(follow(home, runs, *more, progress=recorder)))
    thread.start()
    return thread, reports


def _call(*command):
    subprocess.run(command, check=True, timeout=30)
