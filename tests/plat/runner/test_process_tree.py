"""Processes below a run end with it, in whatever session they are; strangers do not."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from plat.processes import process_tree
from plat.processes.identification import process_start
from plat.processes.process_tree import MARK, children, contained, descendants, kill_leftovers

# Writes its number to the file, and lives on; with `fork` its parent ends at once, as a daemon's does.
SCRIPT = """
import os, signal, sys, time
kind, file = sys.argv[1:]
if "fork" in kind and os.fork():
    os._exit(0)
if "setsid" in kind:
    os.setsid()
if "fork twice" in kind and os.fork():
    os._exit(0)
if "deaf" in kind:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(file + ".part", "w") as part:
    part.write(str(os.getpid()))
os.rename(file + ".part", file)
time.sleep(100)
"""
KINDS = ("child", "fork, setsid", "fork twice, setsid", "fork twice, setsid, deaf")


def start(kind, file: Path):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, kind, str(file)])
    until = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < until, kind
        time.sleep(0.01)
    return process, int(file.read_text())


def lives(pid):
    return process_start(pid) is not None


@pytest.fixture
def stranger(tmp_path):
    """A daemon that no run has started."""
    process, pid = start("fork, setsid", tmp_path / "stranger")
    process.wait()
    yield pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def own_child(tmp_path):
    """A child of this process from before the run."""
    process, pid = start("child", tmp_path / "own")
    yield pid
    process.kill()
    process.wait()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["end", "error"])
def test_what_a_block_starts_ends_with_it(tmp_path, stranger, own_child, monkeypatch, kind, way):
    monkeypatch.setattr(process_tree, "GRACE", 0.3)
    with pytest.raises(ValueError) if way == "error" else contextlib.nullcontext(), contained(tmp_path):
        process, pid = start(kind, tmp_path / "pid")
        assert lives(pid) and pid in descendants(os.getpid(), [own_child])
        if way == "error":
            raise ValueError
    assert process.wait() is not None and not lives(pid) and lives(stranger) and lives(own_child)
    assert own_child in children(os.getpid()) and MARK not in os.environ


def test_a_process_that_is_asked_to_end_can_tidy_up(tmp_path):
    script = (
        "import signal, sys, time, pathlib\n"
        "signal.signal(signal.SIGTERM, lambda *_: (pathlib.Path(sys.argv[1]).write_text('tidy'), sys.exit()))\n"
        "print('ready', flush=True); time.sleep(100)"
    )
    with contained(tmp_path):
        process = subprocess.Popen([sys.executable, "-c", script, str(tmp_path / "file")], stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"ready\n"
    assert (tmp_path / "file").read_text() == "tidy"
    process.stdout.close()
    process.wait()


def test_shared_memory_is_removed_by_the_process_that_python_keeps_for_that(tmp_path):
    """It ignores SIGTERM; killed, it would leave the memory behind."""
    script = (
        "import sys; from multiprocessing import shared_memory; from pathlib import Path; "
        "from plat.processes.process_tree import children, contained\n"
        "with contained(Path(sys.argv[1])):\n"
        "    memory = shared_memory.SharedMemory(create=True, size=64)\n"
        "import os; print(memory.name, children(os.getpid()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    name, left = done.stdout.split(maxsplit=1)
    assert left.strip() == "[]" and not Path("/dev/shm", name).exists()


def test_one_that_forks_without_end_is_killed(tmp_path):
    """Each process forks another and ends: whoever looks for it finds its successor. It gives up after 20 seconds,
    so that a test that fails leaves nothing behind."""
    script = (
        "import os, time\nuntil = time.monotonic() + 20\n"
        "while time.monotonic() < until:\n    if os.fork(): os._exit(0)\n    os.setsid(); time.sleep(0.005)"
    )
    before = descendants(os.getpid())  # of other tests
    with contained(tmp_path):
        process = subprocess.Popen([sys.executable, "-c", script])
        time.sleep(0.2)
    process.wait()
    assert set(descendants(os.getpid())) <= set(before)


@pytest.mark.parametrize("kind", ["child", "fork twice, setsid, deaf"])
def test_leftovers_of_a_killed_run_are_known_by_its_directory(tmp_path, stranger, kind):
    """The process of the run is killed, and nobody adopts what it has started."""
    run, other = tmp_path / "run", tmp_path / "other"
    pids = {}
    for folder in (run, other):
        folder.mkdir()
        pid = os.fork()
        if pid == 0:
            with contained(folder):
                start(kind, folder / "pid")
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(pid, 0)
        pids[folder] = int((folder / "pid").read_text())
    assert all(lives(pid) for pid in pids.values())
    kill_leftovers(run)
    assert not lives(pids[run]) and lives(pids[other]) and lives(stranger)
    (tmp_path / "link").symlink_to(other)
    kill_leftovers(tmp_path / "link")
    assert not lives(pids[other]) and lives(stranger)


def test_leftovers_are_not_whoever_looks_for_them(tmp_path):
    """A run may be started from a process that another attempt of it has started."""
    script = (
        "from pathlib import Path; from plat.processes.process_tree import kill_leftovers; "
        f"kill_leftovers(Path({str(tmp_path)!r})); print('alive')"
    )
    marked = {**os.environ, MARK: os.path.realpath(tmp_path)}
    shell = ["sh", "-c", f'{sys.executable} -c "$1"; echo too', "sh", script]
    assert subprocess.run(shell, env=marked, capture_output=True, text=True).stdout.split() == ["alive", "too"]
