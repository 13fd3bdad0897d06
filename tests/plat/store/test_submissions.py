"""Submissions: each run in the hands of one, by exclusive files alone; and what they prove about leases."""

import json
import multiprocessing
import shutil

import pytest
from toy_runs import toy_run

from plat.store.coordination.submissions import (
    NAME_VARIABLE,
    RESTART_VARIABLE,
    TASK_VARIABLE,
    claim,
    damaged_submissions,
    new_submission,
    newest_record,
    open_record,
    open_submissions,
    submitter,
)
from plat.store.disk.durable import create as create_file
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import end_attempt, new_attempt
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


@pytest.fixture
def paths(home):
    return create(home, toy_run(), "")


def taken(submission, run_id, task=0):
    """The record of a run as task `task` of a submission whose other tasks have runs of their own; None if refused."""
    others = [[f"{submission.name}-{number}"] for number in range(task)]
    return claim(submission, [*others, [run_id]], lambda ids: {"cluster": "lab", **submitter()}).get(run_id)


def handed_over(home, paths, task=0, job="7"):
    submission = new_submission(home)
    assert taken(submission, paths.id, task)
    if job:
        submission.note_job(job, "answer")
    return submission


def test_a_run_is_in_the_hands_of_one_submission_until_that_is_over(home, paths):
    assert newest_record(paths) is None and run_state(paths).state == "missing"
    first = handed_over(home, paths, task=3)
    assert run_state(paths).state == "queued" and run_state(paths).reason == "job 7_3 on lab"
    assert not taken(new_submission(home), paths.id)
    first.note_over("failed:node", "gone", task=2)
    assert not taken(new_submission(home), paths.id)
    first.note_over("failed:node", "gone", task=3)
    assert open_record(paths) is None and run_state(paths).state == "missing"
    second = handed_over(home, paths)
    assert newest_record(paths).submission == second
    second.note_over(None, "all of it")
    assert open_record(paths) is None and first in open_submissions(home) and second not in open_submissions(home)


def test_what_is_noted_first_stays(home, paths):
    submission = handed_over(home, paths, job="7")
    submission.note_job("8", "lookup")
    submission.note_over("failed:oom", "first")
    submission.note_over("failed:node", "second")
    assert submission.job_id() == "7" and submission.end(0)["reason"] == "first"


def _claim_all(root, ids, winners):
    winners.put(list(claim(new_submission(Home(root)), [[run_id] for run_id in ids], lambda left: {})))


def test_of_many_claimants_one_wins_each_run(home):
    ids = [create(home, toy_run(seed=seed), "").id for seed in range(30)]
    context = multiprocessing.get_context("fork")
    winners = context.Queue()
    processes = [context.Process(target=_claim_all, args=(home.root, ids, winners)) for _ in range(8)]
    for process in processes:
        process.start()
    won = [run_id for _ in processes for run_id in winners.get(timeout=60)]
    for process in processes:
        process.join()
    assert sorted(won) == sorted(ids)


@pytest.mark.parametrize("content", ["", '{"job"', '{"job": "8", "checksum": "wrong"}', '{"job": null}'])
def test_a_damaged_number_of_a_job_is_replaced_and_kept(home, paths, content):
    submission = handed_over(home, paths, job="")
    submission.job.write_text(content)
    submission.note_job("7", "lookup")
    assert submission.job_id() == "7"
    assert submission.job.with_name("job.json.damaged-1").read_text() == content


BY_HAND = ['{"tasks": [["x"]]}', '{"tasks": 5}', '{"tasks": [[1, {}]], "number": "x"}']


@pytest.mark.parametrize("content", ["", '{"tasks"', '{"tasks": [["x"]], "checksum": "wrong"}', *BY_HAND])
def test_a_damaged_and_a_removed_submission_hold_nothing(home, paths, content):
    submission = new_submission(home)
    submission.manifest.write_text(content)
    assert open_record(paths) is None and damaged_submissions(home) == [submission]
    assert submission in open_submissions(home, "slurm") and submission.tasks() == []
    held = handed_over(home, paths)
    assert open_record(paths).submission == held
    shutil.rmtree(held.root)
    assert open_record(paths) is None and run_state(paths).state == "missing"


def test_a_submission_of_plat_0_5_has_no_number_and_holds_its_runs(home, paths):
    old = new_submission(home)
    create_file(old.manifest, to_checked_json({"tasks": [[paths.id]], "time": 1.0, "cluster": "lab"}))
    assert open_record(paths).submission == old and not taken(new_submission(home), paths.id)
    old.note_over(None, "ended")
    assert handed_over(home, paths) == newest_record(paths).submission


def test_an_attempt_that_failed_there_is_a_failure_and_one_cut_off_is_queued(home, paths):
    handed_over(home, paths)
    end_attempt(paths, new_attempt(paths, 1), "interrupted", "asked to stop")
    assert run_state(paths).state == "queued"
    end_attempt(paths, new_attempt(paths, 2), "failed:nan", "not a number")
    assert run_state(paths).state == "failed"


def test_a_failure_before_the_run_was_handed_over_says_nothing(home, paths):
    end_attempt(paths, new_attempt(paths, 1), "failed:node", "gone")
    handed_over(home, paths)
    assert run_state(paths).state == "queued"


def lease_of_elsewhere(paths, **task):
    """A lease that a process on another machine has left."""
    held = lease.take(paths)
    facts = json.loads(paths.lease.read_text()) | {"host": "node7", "machine_id": "another", "boot_id": "another"}
    held.release()
    paths.lease.write_text(json.dumps(facts | {"task": task or None}))


def test_a_lease_of_a_task_elsewhere_runs_until_that_task_is_over(home, paths):
    submission = handed_over(home, paths, task=1)
    new_attempt(paths, 1)
    lease_of_elsewhere(paths, submission=submission.name, task=1, restart=0)
    assert lease.state(paths) == "unknown" and lease.take(paths) is None
    assert run_state(paths).state == "running" and run_state(paths).reason == "job 7_1 on lab"
    submission.note_over("failed:node", "gone", task=1)
    assert lease.state(paths) == "orphan" and run_state(paths).state == "interrupted"
    held = lease.take(paths)
    assert held is not None and held.attempt == 2
    held.release()


def test_a_requeue_takes_over_what_its_earlier_start_has_left(home, paths, monkeypatch):
    submission = handed_over(home, paths, task=1)
    lease_of_elsewhere(paths, submission=submission.name, task=1, restart=0)
    monkeypatch.setenv(NAME_VARIABLE, submission.name)
    for task, restart, taken in ((1, 0, False), (2, 1, False), (1, 1, True)):
        monkeypatch.setenv(TASK_VARIABLE, str(task))
        monkeypatch.setenv(RESTART_VARIABLE, str(restart))
        held = lease.take(paths)
        assert (held is not None) is taken
    assert json.loads(paths.lease.read_text())["task"] == {"submission": submission.name, "task": 1, "restart": 1}
    held.release()
    lease_of_elsewhere(paths)
    assert lease.take(paths) is None


def test_a_lease_that_was_stolen_is_not_removed_by_its_first_owner(paths):
    held = lease.take(paths)
    new_attempt(paths, 1)
    facts = json.loads(paths.lease.read_text())
    paths.lease.write_text(json.dumps(facts | {"host": "elsewhere", "attempt": 2}))
    held.release()
    assert paths.lease.exists()


def test_the_record_of_another_submission_is_damage(home, paths):
    first, second = handed_over(home, paths), new_submission(home)
    assert first.facts() and not damaged_submissions(home)
    assert taken(second, "f" * 16)
    shutil.copy(second.manifest, first.manifest)
    assert first.facts() == {} and first.tasks() == [] and damaged_submissions(home) == [first]
