"""Leases: one holder at a time, gone with its process, proved or else unknown."""

import json
import multiprocessing
import os
import signal
import time
from types import SimpleNamespace

import pytest
from torn_files import damage

from plat.processes import identification
from plat.store.disk import durable
from plat.store.run_directory import lease
from plat.store.run_directory.paths import RunPaths


@pytest.fixture
def paths(tmp_path):
    actual = RunPaths(tmp_path / "0123456789abcdef")
    actual.root.mkdir()
    return actual


def in_child(work, *arguments):
    """Start a process; it says "ready" on a pipe when `work` has returned, then waits to be killed."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kept = work(*arguments)  # noqa: F841
            os.write(writer, b"ready")
            time.sleep(60)
        finally:
            os._exit(0)
    assert os.read(reader, 5) == b"ready"
    os.close(reader)
    os.close(writer)
    return pid


def end(pid, number=signal.SIGKILL):
    os.kill(pid, number)
    os.waitpid(pid, 0)


def test_take_hold_release(paths):
    assert lease.state(paths) == "free"
    held = lease.take(paths)
    assert held is not None and held.attempt == 1
    actual = json.loads(paths.lease.read_text())
    assert actual["pid"] == os.getpid() and {"host", "boot_id", "pid_start", "attempt", "job"} <= actual.keys()
    assert lease.state(paths) == "live" and lease.take(paths) is None and lease.take(paths, steal=True) is None
    assert lease.refusal(paths).state == "live" and lease.holder(paths) == os.getpid()
    held.release()
    held.release()
    assert lease.state(paths) == "free" and lease.holder(paths) is None
    paths.attempt(4).root.mkdir(parents=True)
    again = lease.take(paths)
    assert again is not None and again.attempt == 5
    again.release()


def test_a_lease_ends_with_its_process(paths):
    pid = in_child(lease.take, paths)
    assert lease.state(paths) == "live" and lease.take(paths) is None
    end(pid)
    assert lease.state(paths) == "orphan"
    held = lease.take(paths)
    assert held is not None and json.loads(paths.lease.read_text())["pid"] == os.getpid()
    held.release()


def test_a_zombie_holds_nothing(paths):
    pid = in_child(lease.take, paths)
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert lease.state(paths) == "orphan"
    os.waitpid(pid, 0)


def test_a_forked_child_does_not_keep_it_alive(paths, tmp_path):
    def take_and_fork():
        held = lease.take(paths)
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        (tmp_path / "child").write_text(str(child))
        return held

    pid = in_child(take_and_fork)
    end(pid)
    held = lease.take(paths)
    assert held is not None
    held.release()
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


@pytest.mark.parametrize(
    "change",
    [
        {"host": "elsewhere"}, {"boot_id": "before", "machine_id": "another"},
        {"boot_id": "before", "host": "elsewhere"}, {"boot_id": "before", "machine_id": None}, {"boot_id": None}, None,
    ],
)  # fmt: skip
def test_what_cannot_be_proved_is_unknown_and_only_steal_takes_it(paths, change):
    held = lease.take(paths)
    actual = json.loads(paths.lease.read_text())
    held.release()
    paths.lease.write_text(json.dumps(actual | change) if change else '{"pid": ')
    assert lease.state(paths) == "unknown" and lease.take(paths) is None
    error = lease.refusal(paths)
    assert error.state == "unknown" and "--steal" in error.fix and "Traceback" not in error.render()
    stolen = lease.take(paths, steal=True)
    assert stolen is not None
    stolen.release()


def lease_of_an_earlier_boot(paths):
    held = lease.take(paths)
    facts = json.loads(paths.lease.read_text())
    held.release()
    paths.lease.write_text(json.dumps(facts | {"boot_id": "before"}))


@pytest.fixture
def with_machine_id(monkeypatch):
    monkeypatch.setattr(identification, "machine_id", lambda: "0123456789abcdef")


def test_after_a_reboot_a_lease_on_a_local_disk_is_an_orphan(paths, with_machine_id, monkeypatch):
    monkeypatch.setattr(durable, "file_system", lambda folder: "ext4")
    lease_of_an_earlier_boot(paths)
    assert lease.state(paths) == "orphan" and lease.holder(paths) is None
    held = lease.take(paths)
    assert held is not None and lease.state(paths) == "live"
    held.release()


@pytest.mark.parametrize("kind", ["nfs4", "fuse.sshfs", "virtiofs", "lustre", ""])
def test_after_a_reboot_a_lease_on_another_file_system_stays_unknown(paths, with_machine_id, monkeypatch, kind):
    monkeypatch.setattr(durable, "file_system", lambda folder: kind)
    lease_of_an_earlier_boot(paths)
    assert lease.state(paths) == "unknown" and lease.take(paths) is None


def test_the_file_system_of_a_folder_is_that_of_the_nearest_mount(tmp_path, monkeypatch):
    import psutil

    mounts = [
        SimpleNamespace(mountpoint="/", fstype="ext4"),
        SimpleNamespace(mountpoint=str(tmp_path / "far"), fstype="NFS4"),
    ]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: mounts)
    assert durable.file_system(tmp_path / "near" / "deep") == "ext4" and durable.is_local(tmp_path)
    assert durable.file_system(tmp_path / "far" / "deep") == "nfs4"
    assert not durable.is_local(tmp_path / "far")


def test_a_recycled_process_number_is_not_the_holder(paths):
    held = lease.take(paths)
    actual = json.loads(paths.lease.read_text())
    held.release()
    paths.lease.write_text(json.dumps(actual | {"pid_start": "1"}))  # our number, but another start time
    assert lease.state(paths) == "orphan"
    taken = lease.take(paths)
    assert taken is not None
    taken.release()


def test_a_process_in_another_pid_namespace_is_still_live_by_its_lock(paths):
    def take_and_disguise():
        held = lease.take(paths)
        actual = json.loads(paths.lease.read_text())
        paths.lease.write_text(json.dumps(actual | {"pid": 2**22 + 7}))  # a number that means nothing here
        return held

    pid = in_child(take_and_disguise)
    assert lease.state(paths) == "live" and lease.take(paths) is None
    end(pid)
    assert lease.state(paths) == "orphan"


def race(root, barrier, winners):
    paths = RunPaths(root)
    barrier.wait()
    held = lease.take(paths)
    if held is not None:
        winners.put((os.getpid(), held.attempt))
        barrier.wait()  # hold it until everybody has tried
        held.release()
    else:
        barrier.wait()


@pytest.mark.parametrize("before", ["free", "orphan"])
def test_of_eight_that_try_exactly_one_wins(tmp_path, before):
    context = multiprocessing.get_context("fork")
    for turn in range(5):
        paths = RunPaths(tmp_path / f"{before}{turn}")
        paths.root.mkdir()
        if before == "orphan":
            end(in_child(lease.take, paths))
            assert lease.state(paths) == "orphan"
        barrier, winners = context.Barrier(8), context.Queue()
        racers = [context.Process(target=race, args=(paths.root, barrier, winners)) for _ in range(8)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join(20)
        assert [racer.exitcode for racer in racers] == [0] * 8
        winners.get(timeout=5)
        assert winners.empty() and lease.state(paths) == "free"


def test_a_look_is_not_in_the_way_of_a_taker(paths):
    end(in_child(lease.take, paths))
    pid = os.fork()
    if pid == 0:  # looks as fast as it can
        while True:
            lease.state(paths)
    try:
        for _ in range(50):
            held = lease.take(paths)
            assert held is not None
            held.release()
    finally:
        end(pid)


def test_a_directory_that_is_gone_has_no_lease(tmp_path):
    assert lease.take(RunPaths(tmp_path / "nothing")) is None


@pytest.mark.parametrize("seed", range(40))
def test_whatever_becomes_of_the_file_a_live_run_is_not_taken_and_a_dead_ones_never_twice(paths, seed):
    """A torn lease of a dead process is taken over, or needs --steal; that of a live one is nobody's."""
    for alive in (True, False):
        pid = in_child(lease.take, paths)
        if not alive:
            end(pid)
        damage(paths.root, seed, lambda path: path.name == "lease.json")
        try:
            lease.state(paths), lease.refusal(paths), lease.holder(paths), lease.task_of(paths)
            if alive:
                assert lease.take(paths) is None and lease.take(paths, steal=True) is None
            else:
                held = lease.take(paths) or lease.take(paths, steal=True)
                assert held is not None and lease.take(paths) is None
                held.release()
        finally:
            if alive:
                end(pid)
                paths.lease.unlink(missing_ok=True)
