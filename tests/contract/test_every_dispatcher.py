"""What every dispatcher promises, on this machine, on the fake SLURM, and (marked `cluster`) on a real one."""

from __future__ import annotations

import os
import signal
import threading

import pytest
from sweep_processes import Recorder, wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import request_cancel
from plat.store.run_directory.state import run_state


@pytest.fixture
def undisturbed(tmp_path):
    """What a run gives that is done alone, here, in one go."""

    def result(run):
        home = Home(tmp_path / "undisturbed").create()
        assert sweep(home, [run], 1).counts() == {"done": 1}
        return comparable(home.run(run.id))

    return result


def test_runs_are_done_once_and_give_what_they_give_alone(home, place, undisturbed):
    runs = [toy_run(seed=seed, recipe="shared" if seed < 2 else "") for seed in range(4)]
    recorder = Recorder()
    report = sweep(home, runs, progress=recorder, **place.options)
    assert report.counts() == {"done": 4} and report.exit_code == 0, recorder.lines
    for run in runs:
        paths = home.run(run.id)
        assert len(paths.attempts()) == 1 and no_step_twice(paths) and lease.state(paths) == "free"
    assert comparable(home.run(runs[3].id)) == undisturbed(runs[3])
    again = sweep(home, runs, **place.options)
    assert again.counts() == {"done": 4} and not any(end.fresh for end in again.ends.values())
    assert (home.cache / "prepared.txt").read_text() == "shared\n"


def test_a_run_that_fails_takes_nothing_down(home, place):
    runs = [toy_run(seed=seed, mischief=kind) for seed, kind in enumerate(("error", "none", "nan", "collapse"))]
    report = sweep(home, runs, **place.options)
    outcomes = [report.ends[run.id].outcome for run in runs]
    assert outcomes == ["failed:error", "finished", "failed:nan", "stopped:reward_variance_collapse"]
    assert "a mistake in the toy" in report.ends[runs[0].id].reason and report.exit_code == 3
    assert sweep(home, runs, **place.options).counts() == {"failed": 2, "done": 2}
    assert len(home.run(runs[0].id).attempts()) == 1


def test_a_run_that_is_killed_goes_on_from_its_checkpoint(home, place, undisturbed):
    run = toy_run(seed=5, mischief="sigkill_once", at=4)
    report = sweep(home, [run], **place.options)
    assert report.ends[run.id].outcome == "finished"
    assert len(home.run(run.id).attempts()) == 2 and no_step_twice(home.run(run.id))
    calm = comparable(home.run(run.id))
    expected = undisturbed(toy_run(seed=5))
    assert {key: calm[key] for key in ("metrics", "tables", "checkpoint")} == {
        key: expected[key] for key in ("metrics", "tables", "checkpoint")
    }


def test_a_run_that_somebody_has_is_waited_for(home, place):
    run = toy_run(seed=6, iterations=200, sleep=0.02)
    reports = []
    first = threading.Thread(target=lambda: reports.append(sweep(home, [run], 1)))
    first.start()
    wait_for(lambda: lease.state(home.run(run.id)) == "live")
    reports.append(sweep(home, [run], **place.options))
    first.join()
    assert [report.counts() for report in reports] == [{"done": 1}] * 2
    assert len(home.run(run.id).attempts()) == 1


def test_a_cancelled_run_stays_cancelled_and_the_others_go_on(home, place):
    long, short = toy_run(seed=7, iterations=5000, sleep=0.02), toy_run(seed=8)

    def cancel():
        wait_for(lambda: run_state(home.run(long.id)).step or None)
        request_cancel(home.run(long.id))

    canceller = threading.Thread(target=cancel)
    canceller.start()
    report = sweep(home, [long, short], **place.options)
    canceller.join()
    assert report.ends[long.id].outcome == "cancelled" and report.ends[short.id].outcome == "finished"


def test_what_a_killed_run_has_started_is_ended_with_it(home, place):
    run = toy_run(seed=9, mischief="child_and_hang_once")

    def kill():
        wait_for((home.cache / "child.txt").exists)
        wait_for(lambda: lease.holder(home.run(run.id)) is not None)
        os.kill(lease.holder(home.run(run.id)), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    report = sweep(home, [run], **place.options)
    killer.join()
    assert report.ends[run.id].outcome == "finished"
    child = int((home.cache / "child.txt").read_text())
    wait_for(lambda: not os.path.exists(f"/proc/{child}"), timeout=20)
