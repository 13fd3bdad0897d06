"""Several sweeps of one home: each run once, and the cores shared."""

import json
import os
import signal
import tempfile
import time

import pytest
from sweep_processes import Recorder, finish, start, wait_for
from toy_runs import no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.dispatch.local.devices import SharedCores
from plat.processes.own_process import usable_cores
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.creation import create


def test_two_sweeps_at_once_do_each_run_once(home):
    options = [{"seed": seed, "iterations": 10, "sleep": 0.01, "recipe": "shared"} for seed in range(10)]
    sweeps = [start(home, options), start(home, options)]
    results = [finish(process) for process in sweeps]
    assert [code for code, *_ in results] == [0, 0], results
    assert [last["counts"] for *_, last in results] == [{"done": 10}] * 2
    for overrides in options:
        path = home.run(toy_run(**overrides).id)
        assert len(path.attempts()) == 1 and no_step_twice(path)
    assert sum(1 for line in home.history.read_text().splitlines() if '"run"' in line) == 10


def test_a_run_held_elsewhere_is_waited_for_and_an_unknown_one_reported(home):
    live, unknown = toy_run(seed=0), toy_run(seed=1)
    for run in (live, unknown):
        create(home, run, "")
    held = lease.take(home.run(unknown.id))
    text = json.loads(home.run(unknown.id).lease.read_text())
    held.release()
    home.run(unknown.id).lease.write_text(json.dumps(text | {"host": "elsewhere"}))
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        kept = lease.take(home.run(live.id))
        os.write(writer, b"x")
        time.sleep(1.0)
        kept.release()
        os._exit(0)
    os.read(reader, 1)
    recorder = Recorder()
    report = sweep(home, [live, unknown], 2, recorder)
    os.waitpid(pid, 0)
    assert (live.name, "waiting", None) in recorder.lines
    assert report.ends[live.id].state == "done" and report.ends[unknown.id].state == "unknown"
    assert "--steal" in report.ends[unknown.id].reason and report.exit_code == 3
    assert sweep(home, [live, unknown], 2, steal=True).counts() == {"done": 2}


@pytest.fixture
def own_cores(tmp_path, monkeypatch):
    """A folder of core locks for this test alone, here and in the processes that it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it is remembered from the first call


@pytest.mark.skipif(usable_cores() < 2, reason="one core cannot be shared")
def test_a_second_sweep_takes_the_cores_that_are_left(own_cores, tmp_path):
    """Another home, the same machine: one run at a time while the first sweep has every core, all of them after it."""
    first, second = Home(tmp_path / "first").create(), Home(tmp_path / "second").create()
    long = [{"seed": seed, "iterations": 5000, "sleep": 0.02} for seed in range(usable_cores())]
    process = start(first, long, jobs=0)
    try:
        wait_for(lambda: SharedCores().free() == 0, process)
        crowded = Recorder()
        report = sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(3)], progress=crowded)
        assert report.counts() == {"done": 3} and crowded.most_running == 1
        assert f"other sweeps use {usable_cores()} of {usable_cores()} cores" in str(crowded.lines)
        asked = Recorder()
        sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(3, 6)], 2, asked)
        assert asked.most_running == 2 and "other sweeps" not in str(asked.lines)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    wait_for(lambda: SharedCores().free() == usable_cores())
    alone = Recorder()
    sweep(second, [toy_run(seed=seed, sleep=0.05) for seed in range(6, 9)], progress=alone)
    assert alone.most_running >= 2 and "other sweeps" not in str(alone.lines)
    assert SharedCores().free() == usable_cores()


def test_a_folder_of_cores_that_is_not_ours_is_not_used(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_text("")
    for place in ("link", "file", "missing/deep"):
        cores = SharedCores(tmp_path / place)
        cores.take("job", 1)
        assert cores.free() == cores.count and not any((tmp_path / "real").iterdir())
