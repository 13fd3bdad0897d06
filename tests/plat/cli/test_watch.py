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

from plat.app.entries import entry_in
from plat.characters import wrapped
from plat.cli.screen.watch_screen import describe, views_of
from plat.dispatch.follower import Follower, View, laid_out
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.spool import SpoolWriter


@pytest.fixture
def going_on(executed, home):
    """A run that somebody works on: (its paths, a writer of its spool)."""
    run = executed(seed=5, iterations=40)
    run.result.unlink()
    held = lease.take(run)
    attempt = new_attempt(run, held.attempt)
    spool = SpoolWriter(attempt.events, attempt.run.id)
    yield run, spool
    spool.close()
    held.release()


def log(spool, step, **metrics):
    spool.append(step, {key.replace("__", "/"): value for key, value in metrics.items()})


def test_progress_is_read_as_the_spool_grows(going_on, home):
    run, spool = going_on
    follower = Follower(Home(home))
    (before,) = views_of(follower, [entry_in(run)])
    assert (before.step, before.success, before.eta) == (None, None, None)
    log(spool, 1, val__success=0.25, val__agreement=0.5)
    time.sleep(0.05)
    log(spool, 3, val__success=0.75)
    (now,) = views_of(follower, [entry_in(run)])
    assert (now.step, now.iterations, now.success, now.shown) == (3, 40, 0.75, {"agreement": 0.5})
    assert now.pace > 0.02 and now.eta == pytest.approx(37 * now.pace)
    assert "iteration 3/40" in describe(now) and "agreement 50.0 %" in describe(now)


def test_a_run_that_is_starting_says_what_it_does_until_its_first_step(plat, going_on, home):
    run, spool = going_on
    run.attempts()[-1].status.write_text("waiting for the GPUs of 2 nodes\n")
    (before,) = views_of(Follower(Home(home)), [entry_in(run)])
    assert describe(before).endswith("  waiting for the GPUs of 2 nodes")
    assert "1 running: waiting for the GPUs of 2 nodes" in plat("status")[1]
    assert "(waiting for the GPUs of 2 nodes)" in " ".join(plat("why", run.id)[1].split())
    log(spool, 0, val__success=0.25)
    for verb in (("status",), ("why", run.id)):
        assert "waiting for the GPUs" not in " ".join(plat(*verb)[1].split())


def test_what_goes_on_comes_first(going_on, executed, home):
    runs = [executed(seed=0), executed(seed=1, mischief="error"), going_on[0]]
    order = views_of(Follower(Home(home)), [entry_in(run) for run in runs])
    assert [view.state for view in order] == ["running", "failed", "done"]


def test_piped_it_prints_changes_and_ends_with_the_runs(plat, executed):
    executed(seed=0), executed(seed=1, mischief="error")
    assert plat("watch") == (3, "1 done, 1 failed of 2\n", "")


@given(st.text("ab-", max_size=60), st.integers(3, 20))
def test_a_wrapped_name_is_whole(name, room):
    lines = wrapped(name, room)
    assert "".join(lines) == name and all(len(line) <= room for line in lines)


def test_names_are_broken_behind_hyphens():
    assert wrapped("sokoban-grpo-qwen2.5-3b", 13) == ["sokoban-grpo-", "qwen2.5-3b"]


def running(name, **values):
    return View(name[-8:], name, "running", 27, 40, success=0.5, pace=1.0, eta=13.0, **values)


NAMES = ["sokoban-grpo-qwen2.5-3b-none-s0-0123abcd", "metamathqa-dapo-qwen2.5-0.5b-top_p-fixed_size-s4-89ef4567"]


@pytest.mark.parametrize(("width", "lines_each"), [(72, 2), (80, 2), (100, 2), (200, 1)])
def test_no_cell_is_cut_and_no_line_is_too_long(width, lines_each):
    header, rows = laid_out([running(name, shown={"retrieval": 0.125}) for name in NAMES], width)
    assert header[0].endswith("left")
    for name, lines in zip(NAMES, rows, strict=True):
        assert len(lines) == lines_each and all(len(line) <= width for line in lines)
        assert lines[0].startswith(name)
        assert all(cell in lines[-1] for cell in ("27/40", "50.0 %", "12.5 %", "1.00 s", "13 s"))


def test_a_very_narrow_terminal_shows_every_character():
    _, rows = laid_out([running(name) for name in NAMES], 20)
    assert all(len(line) <= 20 for lines in rows for line in lines)
    assert NAMES[1] in "".join(rows[1]) and "27/40" in " ".join(rows[1])


def test_a_column_that_is_empty_for_every_run_takes_no_room():
    assert "retrieval" not in laid_out([running(name) for name in NAMES], 200)[0][0]
    assert "retrieval" in laid_out([running(NAMES[0], shown={"retrieval": 0.5}), running(NAMES[1])], 200)[0][0]


def test_runs_that_are_all_done_can_be_chosen(executed, home):
    run = executed(seed=0)
    terminal = Terminal(sys.executable, "-m", "plat", "watch", "--home", str(home), "--every", "0.3")
    try:
        terminal.wait_for(run.id[:8])
        terminal.wait_for("best so far")
        terminal.press("l")
        terminal.wait_for("toy starts at step 0")
        terminal.press("q")
        terminal.wait_for_end()
    finally:
        terminal.end()


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

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.side)


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
        terminal.end()
