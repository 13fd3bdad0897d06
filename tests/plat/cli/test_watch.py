"""`plat watch`: what it shows is what the spools say; its keys do what they promise."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.cli.entries import entry_in
from plat.cli.follow import Follower, describe, ordered
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.spool import SpoolWriter
from plat.text import wrapped


@pytest.fixture
def going_on(executed, home):
    """A run that somebody works on: (its paths, a writer of its spool)."""
    run = executed(seed=5, iterations=40)
    run.result.unlink()
    held = lease.take(run)
    attempt = new_attempt(run, held.attempt)
    spool = SpoolWriter(attempt.events)
    yield run, spool
    spool.close()
    held.release()


def log(spool, step, **metrics):
    spool.append(step, {key.replace("__", "/"): value for key, value in metrics.items()})


def test_progress_is_read_as_the_spool_grows(going_on, home):
    run, spool = going_on
    follower = Follower(Home(home))
    (before,) = follower.progress([entry_in(run)])
    assert (before.step, before.success, before.seconds_left) == (None, None, None)
    log(spool, 1, val__success=0.25, mi__first_turn__retrieval_acc=0.5)
    time.sleep(0.05)
    log(spool, 3, val__success=0.75)
    (now,) = follower.progress([entry_in(run)])
    assert (now.step, now.iterations, now.success, now.retrieval) == (3, 40, 0.75, 0.5)
    assert now.step_seconds > 0.02 and now.seconds_left == pytest.approx(37 * now.step_seconds)
    assert "iteration 3/40" in describe(now) and "retrieval 50.0 %" in describe(now)


def test_what_goes_on_comes_first(going_on, executed, home):
    runs = [executed(seed=0), executed(seed=1, mischief="error"), going_on[0]]
    order = ordered(Follower(Home(home)).progress([entry_in(run) for run in runs]))
    assert [progress.entry.state.state for progress in order] == ["running", "failed", "done"]


def test_piped_it_prints_changes_and_ends_with_the_runs(plat, executed):
    executed(seed=0), executed(seed=1, mischief="error")
    assert plat("watch") == (3, "1 done, 1 failed of 2\n", "")


@given(st.text("ab-", max_size=60), st.integers(3, 20))
def test_a_wrapped_name_is_whole(name, room):
    lines = wrapped(name, room)
    assert "".join(lines) == name and all(len(line) <= room for line in lines)


def test_names_are_broken_behind_hyphens():
    assert wrapped("sokoban-grpo-qwen2.5-3b", 13) == ["sokoban-grpo-", "qwen2.5-3b"]


class Terminal:
    """A process on a terminal of its own."""

    def __init__(self, *command):
        self.side, other = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        self.text = ""

    def wait_for(self, words, seconds=60):
        limit = time.monotonic() + seconds
        while words not in self.text:
            assert time.monotonic() < limit and self.process.poll() is None, self.text
            if select.select([self.side], [], [], 0.2)[0]:
                self.text += re.sub("\x1b\\[[0-9;?]*[A-Za-z]", "", os.read(self.side, 65536).decode(errors="replace"))

    def wait_for_end(self, seconds=60):
        limit = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < limit, self.text
            if select.select([self.side], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the other side is closed
                    os.read(self.side, 65536)

    def press(self, keys):
        self.text = ""
        os.write(self.side, keys.encode())


def test_the_keys(going_on, home):
    run, spool = going_on
    log(spool, 2, val__success=0.5)
    terminal = Terminal(sys.executable, "-m", "plat", "watch", "--home", str(home), "--every", "0.3")
    try:
        terminal.wait_for("2/40")
        assert json.loads(run.meta.read_text())["name"].split("-")[-1] in terminal.text
        terminal.press("l")
        terminal.wait_for("its log is empty")
        terminal.press("c")
        terminal.wait_for("y or n")
        assert not run.cancel.exists()
        terminal.press("n")
        terminal.wait_for("q quit")
        assert not run.cancel.exists()
        terminal.press("c")
        terminal.wait_for("y or n")
        terminal.press("r")
        assert not run.cancel.exists()
        terminal.press("q")
        terminal.wait_for_end()
        assert terminal.process.returncode == 0 and not run.cancel.exists()
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.side)
