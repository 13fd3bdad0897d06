"""What is garbage is not needed by anything: histories, evaluations and resumed runs are as before."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from newest_checkpoint import newest_valid
from runner_runs import make
from toy_runs import toy_run

from plat.processes import identification
from plat.runner.execution import execute
from plat.store.cleaning.garbage import garbage, remove_garbage
from plat.store.coordination.preparations import announced
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.checkpoint import list_checkpoints
from plat.store.run_directory.history import run_history


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


def kinds(home, **options):
    return sorted({item.kind for item in garbage(home, **options)})


def checkpoints(run):
    return [step for attempt in run.attempts() for step, _ in list_checkpoints(attempt.checkpoints)]


def test_the_history_and_the_peak_of_a_done_run_survive(home):
    run = make(home, iterations=20, mischief="error_once", at=13)
    assert [execute(home, run.id), execute(home, run.id)] == ["failed:error", "finished"]
    history, folders = run_history(run), [attempt.checkpoints for attempt in run.attempts()]
    peak, before = newest_valid(folders, peak=True), checkpoints(run)
    items = garbage(home)
    assert {item.kind for item in items} == {"checkpoints"} and all(item.size > 0 for item in items)
    assert remove_garbage(items) == sum(item.size for item in items)
    assert run_history(run) == history and newest_valid(folders, peak=True) == peak
    assert len(checkpoints(run)) == len(before) - len(items) and not garbage(home)


def test_nothing_of_a_run_that_may_go_on_is_listed(home):
    run = make(home, iterations=20, mischief="error", at=17)
    execute(home, run.id)
    assert len(checkpoints(run)) >= 2 and not garbage(home)


def test_half_written_files_go_when_they_are_old(home):
    scratch = home.root / ".tmp-1-0-meta.json"
    scratch.write_text("{")
    assert not garbage(home)
    os.utime(scratch, (time.time() - 7200,) * 2)
    assert [item.path for item in garbage(home)] == [scratch]
    index = home.root / "index.db"  # of plat 0.4
    index.touch()
    assert {item.path for item in garbage(home)} == {scratch, index}
    remove_garbage(garbage(home))
    assert not scratch.exists() and not index.exists()


def test_a_half_written_checkpoint_of_a_run_that_goes_on_is_left_alone(home):
    """A large checkpoint may be hours in the writing, and its folder's time is when the writing began."""
    run = make(home, iterations=20, mischief="error", at=17)
    execute(home, run.id)
    scratch = run.attempt(1).checkpoints / ".tmp-1-0-step-000018"
    scratch.mkdir()
    os.utime(scratch, (time.time() - 7200,) * 2)
    held = lease.take(run)
    assert not garbage(home)
    held.release()
    assert [(item.kind, item.path) for item in garbage(home)] == [("scratch", scratch)]


def test_preparations_that_are_over(home):
    home.logs.mkdir()
    for job in ("prepare:toy:old", "prepare:toy:new"):
        home.job_log(job).write_text("step 1/2")
    home.preparations.mkdir()
    home.preparation("prepare:toy:old").write_text(json.dumps({**identification.this_process(), "pid_start": "0"}))
    with announced(home, "prepare:toy:new", "new"):
        listed = {item.path for item in garbage(home)}
    assert home.job_log("prepare:toy:old") in listed
    assert not {home.job_log("prepare:toy:new"), home.preparation("prepare:toy:new")} & listed


def test_caches_only_when_asked_for_and_never_under_a_running_run(home):
    base = home.cache / "bases" / "one"
    base.mkdir(parents=True)
    (base / "weights").write_bytes(bytes(1000))
    assert kinds(home) == [] and kinds(home, caches=True) == ["caches"]
    held = lease.take(make(home))
    assert kinds(home, caches=True) == []
    held.release()
    with announced(home, "prepare:toy:new", "base model"):
        assert "caches" not in kinds(home, caches=True)
    assert remove_garbage(garbage(home, caches=True)) >= 1000 and not base.exists()
    assert toy_run().id in home.run_ids()


@pytest.mark.parametrize("name", ["preparations", "cache", "reports", "runs", "logs", "cache/bases"])
def test_what_a_link_leads_to_outside_of_the_home_is_not_listed(home, tmp_path, name):
    outside = tmp_path / "outside"
    for path in ("aa/prepare-x.txt", ".tmp-old/x", "x.json", "prepare-y.txt", "aa/.tmp-z"):
        (outside / path).parent.mkdir(parents=True, exist_ok=True)
        (outside / path).write_text("mine")
    for path in (outside, *outside.rglob("*")):
        os.utime(path, (1, 1))
    place = home.root / name
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside)
    before = sorted(outside.rglob("*"))
    remove_garbage(garbage(home, caches=True))
    assert sorted(outside.rglob("*")) == before


def test_a_link_to_a_folder_in_the_home_is_followed(home):
    (home.root / "elsewhere").mkdir()
    (home.root / "elsewhere" / "x.json").write_text("damaged")
    home.preparations.symlink_to(home.root / "elsewhere")
    assert [item.path.name for item in garbage(home)] == ["x.json"]
