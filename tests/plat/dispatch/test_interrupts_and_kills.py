"""Interrupts, kills and a dying server: every run saves or goes on, and no process is left."""

import os
import random
import signal
import sys
import threading
import time

import pytest
from sweep_processes import SLOW, finish, members, parent_of, start, state_of, wait_for
from toy_runs import comparable, no_step_twice, toy_run

from plat.dispatch.driver import sweep
from plat.dispatch.local import job_processes
from plat.errors import RunError
from plat.processes.identification import process_start
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.state import run_state


def test_the_server_may_die_and_the_sweep_goes_on(home):
    process = start(home, SLOW)
    run = home.run(toy_run(**SLOW[0]).id)
    wait_for(lambda: run_state(run).step is not None, process)
    os.kill(parent_of(lease.holder(run)), signal.SIGKILL)
    code, output, last = finish(process)
    assert code == 0, output
    assert last["counts"] == {"done": 3} and "another process is running it" in output
    assert all(no_step_twice(home.run(toy_run(**options).id)) for options in SLOW)


def test_a_server_that_cannot_start_is_said_clearly(home, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunError, match="the worker server died") as error:
        sweep(home, [toy_run()], 1)
    assert error.value.fix and error.value.where


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_interrupt_saves_and_the_same_command_goes_on(home, number):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup, which plat respects")
    process = start(home, SLOW)
    paths = [home.run(toy_run(**options).id) for options in SLOW]
    wait_for(lambda: all((run_state(path).step or 0) >= 1 for path in paths[:2]), process)
    os.killpg(process.pid, number)  # as a terminal does: everybody in the group gets it
    code, output, last = finish(process)
    assert code == 130 and "resumes from there" in output and "Traceback" not in output
    assert last["counts"] == {"interrupted": 2, "missing": 1}
    for path in paths[:2]:
        state = run_state(path)
        assert (state.outcome, state.reason) == ("interrupted", "asked to stop")
        assert (
            max(int(p.name[5:]) for p in path.attempt(1).checkpoints.iterdir()) == state.step
        )  # saved where it stopped
    assert members(process.pid) == []
    code, output, last = finish(start(home, SLOW))
    assert code == 0 and last["counts"] == {"done": 3}
    assert all(no_step_twice(path) for path in paths)


def test_an_interrupt_while_the_server_still_loads_ends_at_once(home, monkeypatch):
    monkeypatch.setattr(job_processes, "_START", "import time; time.sleep(1000)")
    runs = [toy_run(seed=seed) for seed in range(3)]
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    report = sweep(home, runs, 2)
    timer.join()
    assert report.exit_code == 130 and report.counts() == {"interrupted": 2, "missing": 1}
    assert not any(run_state(home.run(run.id)).attempt for run in runs)


def test_an_interrupt_before_the_runs_ends_at_once(home):
    def wait():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1000)

    with pytest.raises(KeyboardInterrupt):
        sweep(home, [toy_run()], 1, before_runs=wait)
    assert list(home.runs.iterdir()) == []


def test_a_second_interrupt_kills(home):
    options = [{"mischief": "hang"}]
    process = start(home, options)
    path = home.run(toy_run(**options[0]).id)
    wait_for(lambda: run_state(path).step == 3, process)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # a hanging run cannot save
    os.killpg(process.pid, signal.SIGINT)
    code, _, last = finish(process)
    assert code == 130 and last["counts"] == {"interrupted": 1} and members(process.pid) == []
    assert run_state(path).state == "interrupted" and lease.state(path) == "free"


@pytest.mark.parametrize("way", ["finish", "second interrupt", "stop", "kill the worker", "kill the server"])
def test_what_a_run_has_started_does_not_outlive_it(home, way):
    hangs = way in ("second interrupt", "kill the worker")
    options = [{"mischief": "child_and_hang" if hangs else "child", "iterations": 6 if way == "finish" else 80}]
    options[0]["sleep"] = 0.0 if way == "finish" else 0.02
    process = start(home, options, jobs=1)
    path, child = home.run(toy_run(**options[0]).id), home.cache / "child.txt"
    wait_for(lambda: child.exists() and child.read_text() and (run_state(path).step or 0) >= 3, process)
    if way == "kill the worker":
        os.kill(lease.holder(path), signal.SIGKILL)
        wait_for(lambda: process_start(int(child.read_text())) is None)
    elif way == "kill the server":
        os.kill(parent_of(lease.holder(path)), signal.SIGKILL)
    for _ in range({"stop": 1, "second interrupt": 2, "kill the worker": 2}.get(way, 0)):
        os.kill(process.pid, signal.SIGINT)
        time.sleep(0.5)  # two at once would count as one
    finish(process)
    wait_for(lambda: members(process.pid) == [])


def test_ctrl_z_suspends_the_runs_too_and_they_go_on(home):
    process = start(home, SLOW[:1])
    path = home.run(toy_run(**SLOW[0]).id)
    wait_for(lambda: run_state(path).step is not None, process)
    server = parent_of(lease.holder(path))
    os.killpg(process.pid, signal.SIGTSTP)
    wait_for(lambda: state_of(lease.holder(path)) == state_of(server) == "T", process)
    os.killpg(process.pid, signal.SIGCONT)
    code, output, last = finish(process)
    assert code == 0 and last["counts"] == {"done": 1}, output


def test_workers_do_not_outlive_a_killed_parent(home):
    process = start(home, SLOW)
    paths = [home.run(toy_run(**options).id) for options in SLOW]
    wait_for(lambda: all((run_state(path).step or 0) >= 1 for path in paths[:2]), process)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    wait_for(lambda: members(process.pid) == [])
    states = [run_state(path) for path in paths[:2]]
    assert [state.outcome for state in states] == ["interrupted"] * 2  # they saved first
    assert all("the command that had started it was gone" in state.reason for state in states)
    assert finish(start(home, SLOW))[2]["counts"] == {"done": 3}


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(20))
def test_kill_9_of_everything_at_a_random_moment_leaves_no_trace(home, tmp_path, seed):
    """The whole process group, up to five times, then once more to the end: equal to an undisturbed sweep."""
    options = [{"seed": i, "iterations": 30, "sleep": 0.01, "checkpoint_every": 4, "recipe": "r"} for i in range(4)]
    undisturbed = Home(tmp_path / "quiet").create()
    assert sweep(undisturbed, [toy_run(**overrides) for overrides in options], 2).counts() == {"done": 4}
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 5)):
        process = start(home, options)
        time.sleep(rng.uniform(0.05, 1.6))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    code, output, _ = finish(start(home, options))
    assert code == 0, output
    for overrides in options:
        run_id = toy_run(**overrides).id
        disturbed, quiet = comparable(home.run(run_id)), comparable(undisturbed.run(run_id))
        if disturbed["checkpoint"][0] > quiet["checkpoint"][0]:  # told to stop before it was killed, it saved once more
            del disturbed["checkpoint"], quiet["checkpoint"]
        assert disturbed == quiet
        assert no_step_twice(home.run(run_id))
        assert lease.state(home.run(run_id)) != "live"  # an orphan's: killed between its result and letting go
