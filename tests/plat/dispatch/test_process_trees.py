"""A daemon that a run has started, in a session of its own and deaf to SIGTERM, ends with the run however that ends."""

import contextlib
import os
import signal
import time

import pytest
from sweep_processes import finish, parent_of, start, wait_for
from toy_runs import toy_run

from plat.dispatch.driver import sweep
from plat.processes.identification import process_start
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import request_cancel
from plat.store.run_directory.state import run_state


def lives(pid):
    return process_start(pid) is not None


def daemon_of(home):
    with contextlib.suppress(OSError, ValueError):
        return int((home.cache / "daemon.txt").read_text())
    return None


@pytest.fixture
def stranger(home):
    """The daemon of another sweep of the same program."""
    place = Home(home.root.parent / "stranger").create()
    process = start(place, [{"mischief": "daemon_and_hang"}], jobs=1)
    wait_for(lambda: daemon_of(place) is not None, process)
    yield daemon_of(place)
    worker = lease.holder(place.run(toy_run(mischief="daemon_and_hang").id))
    for pid in (process.pid, parent_of(worker), worker, daemon_of(place)):
        os.kill(pid, signal.SIGKILL)
    process.communicate()


WAYS = ["finish", "interrupt", "cancel", "second interrupt", "stall", "worker", "server", "sweep"]


@pytest.mark.parametrize("way", WAYS)
def test_a_daemon_ends_with_its_run(home, way):
    hangs = way in ("second interrupt", "stall", "worker")
    mischief = "unmarked_daemon_and_hang" if hangs else "unmarked_daemon"  # the next attempt would not know it
    options = {"mischief": mischief, "iterations": 6 if way == "finish" else 80}
    options["sleep"] = 0.0 if way == "finish" else 0.02
    path = home.run(toy_run(**options).id)
    process = start(home, [options], jobs=1, **({"stall_after": 4.0} if way == "stall" else {}))
    wait_for(lambda: daemon_of(home) is not None)
    daemon = daemon_of(home)
    if way == "interrupt":
        os.kill(process.pid, signal.SIGINT)
    elif way == "cancel":
        request_cancel(path)
    elif way == "worker":
        os.kill(lease.holder(path), signal.SIGKILL)
    if way in ("worker", "stall"):
        wait_for(lambda: not lives(daemon), process)  # then the run is tried again, and hangs again
    if hangs:
        for _ in range(2):
            os.kill(process.pid, signal.SIGINT)
            time.sleep(0.5)  # two at once would count as one
    elif way == "server":
        os.kill(parent_of(lease.holder(path)), signal.SIGKILL)
    elif way == "sweep":
        process.kill()
    finish(process)
    wait_for(lambda: not lives(daemon) and not lives(daemon_of(home)))


def test_a_daemon_whose_run_is_killed_with_everything_above_it_ends_before_the_next_attempt(home, stranger):
    options = {"mischief": "daemon_once", "iterations": 40, "sleep": 0.02}
    path = home.run(toy_run(**options).id)
    process = start(home, [options], jobs=1)
    wait_for(lambda: daemon_of(home) is not None, process)
    worker = lease.holder(path)
    above = [process.pid, parent_of(worker), worker]
    for pid in above:
        os.kill(pid, signal.SIGSTOP)  # so that none of them sees another end
    for pid in above:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    assert lives(daemon_of(home)), "nobody is left who could end it"
    assert sweep(home, [toy_run(**options)], 1).counts() == {"done": 1}
    assert not lives(daemon_of(home)) and lives(stranger) and run_state(path).attempt == 2
