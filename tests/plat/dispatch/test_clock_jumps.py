"""The wall clock is set forward or back while runs go on: nothing is stolen, nothing lasts a negative time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import pytest
from sweep_processes import finish, start, wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.state import run_state

DAY = 86400.0
SLOW = {"seed": 1, "iterations": 60, "sleep": 0.05, "checkpoint_every": 5}
CLOCK = """\
import os, time
real = time.time
def jumping():
    try:
        with open(os.environ["JUMP"]) as file:
            return real() + float(file.read() or 0)
    except (KeyError, OSError):
        return real()
time.time = jumping
"""
VERBS = (("status",), ("status", "--json"), ("runs", "--json"), ("plan",), ("gc", "--dry-run"))


@pytest.fixture
def jump(tmp_path, monkeypatch):
    """Set the clock of this process and of every one that it starts by so many seconds."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(CLOCK)
    file, real = tmp_path / "jump.txt", time.time
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path / 'site'}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("JUMP", str(file))

    def by(seconds):
        file.write_text(str(seconds))
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return by


def negative(value):
    """The numbers below zero in what a verb gives as JSON."""
    if isinstance(value, dict):
        return [found for key, item in value.items() for found in negative(item) if key != "axes"]
    if isinstance(value, list):
        return [found for item in value for found in negative(item)]
    return [value] if isinstance(value, int | float) and value < 0 else []


def ask(plat, home, run):
    """Every verb about runs answers, and nothing that it says lasts a negative time."""
    for verb in (*VERBS, ("why", run.id)):
        code, out, _ = plat(*verb, "--home", home.root)
        assert code in (0, 2, 3) and "-0." not in out and " -1" not in out, (verb, out)
        if "--json" in verb:
            assert not negative(json.loads(out)), (verb, out)


@pytest.mark.parametrize("seconds", [-DAY, DAY, -400 * DAY])
def test_a_clock_that_jumps(home, plat, jump, tmp_path, empty_store, seconds):
    shutil.copy(empty_store, home.database)
    run = toy_run(**SLOW)
    paths = home.run(run.id)
    jump(0)
    process = start(home, [SLOW], 1)
    wait_for(lambda: (run_state(paths).step or 0) > 6, process)
    jump(seconds)
    assert run_state(paths).state == "running" and lease.take(paths) is None, "a live run is nobody else's"
    ask(plat, home, run)
    code, _, report = finish(start(home, [SLOW], 1), 120)  # it waits for the other one
    assert code == 0 and process.wait(120) == 0 and report["fresh"] == [], report
    process.stdout.close()
    assert len(paths.attempts()) == 1 and no_step_twice(paths)
    ask(plat, home, run)
    jump(0)
    ask(plat, home, run)
    assert plat("sync", "--home", home.root)[0] == 0
    with closing(sqlite3.connect(home.database)) as store:
        times = store.execute("SELECT start_time, end_time FROM runs WHERE end_time IS NOT NULL").fetchall()
    assert times and all(0 < began <= ended for began, ended in times), times


@pytest.mark.parametrize("seconds", [-DAY, DAY])
def test_the_lease_of_a_dead_process_is_taken_over_whatever_the_clock_says(home, plat, jump, tmp_path, seconds):
    run = toy_run(**SLOW)
    paths = home.run(run.id)
    jump(0)
    process = start(home, [SLOW], 1)
    wait_for(lambda: (run_state(paths).step or 0) > 6, process)
    worker = lease.holder(paths)
    os.killpg(process.pid, signal.SIGKILL)
    os.kill(worker, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    jump(seconds)
    ask(plat, home, run)
    assert finish(start(home, [SLOW], 1), 120)[0] == 0
    undisturbed = Home(tmp_path / "undisturbed").create()
    assert finish(start(undisturbed, [SLOW], 1), 120)[0] == 0
    assert comparable(paths) == comparable(undisturbed.run(run.id)) and no_step_twice(paths)
    jump(0)
    ask(plat, home, run)
