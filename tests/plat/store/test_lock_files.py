"""Lock files that others can open would let them stop every command of a home; a command says what it waits for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest
from runner_runs import make

from plat.processes.locks import open_lock
from plat.runner.execution import execute
from plat.store.disk import durable
from plat.store.disk.durable import locked
from plat.store.home import Home
from plat.store.mlflow.importer import import_lock
from plat.store.run_directory import lease


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o002, 0o000])
def test_others_can_open_no_lock_file(tmp_path, umask):
    before = os.umask(umask)
    try:
        home = Home(tmp_path / "home").create()
        run = make(home)
        held = lease.take(run)
        with import_lock(home), locked(home.meta_lock):
            files = [path for path in home.root.rglob("*lock*") if path.is_file()]
            assert {run.lock, home.import_lock, home.meta_lock} <= set(files)
            assert [path for path in files if mode(path) & 0o007] == []
        held.release()
    finally:
        os.umask(before)


def test_a_lock_file_of_an_earlier_version_is_closed_to_others(tmp_path):
    path = tmp_path / "x.lock"
    path.touch(0o644)
    os.chmod(path, 0o644)
    os.close(open_lock(path))
    assert mode(path) == 0o640


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_a_user_who_may_only_read_a_home_cannot_hold_its_locks(tmp_path):
    os.chmod(tmp_path, 0o755)
    home = Home(tmp_path / "home").create()
    take = "import fcntl, sys; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX)"
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", take]
    with import_lock(home):
        done = subprocess.run([*command, str(home.import_lock)], capture_output=True, text=True)
    assert done.returncode and "Permission" in done.stderr


def test_a_command_says_what_it_waits_for(tmp_path, plat, home, monkeypatch):
    monkeypatch.setattr(durable, "PATIENCE", 0.2)
    execute(home, make(home).id)
    hold = "import sys, time; from plat.store.disk.durable import locked; from pathlib import Path\n"
    hold += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(8)"
    holder = subprocess.Popen([sys.executable, "-c", hold, str(home.import_lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    code, _, err = plat("sync", "--home", home.root)
    holder.communicate(timeout=60)
    assert code == 0 and f"note: waiting for another process, which holds the lock {home.import_lock}" in err


def test_a_lock_that_is_free_says_nothing(tmp_path, caplog):
    with locked(tmp_path / "x.lock"):
        pass
    assert not caplog.records
