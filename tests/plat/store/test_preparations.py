"""What is being prepared can be read from the home, and only while somebody really prepares it."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest

from plat.store.coordination.preparations import announced, is_being_prepared, preparations, progress_of
from plat.store.coordination.submissions import new_submission
from plat.store.home import Home

JOB = "prepare:toy:abc"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path).create()


def test_it_is_announced_for_as_long_as_it_takes(home: Home) -> None:
    assert preparations(home) == [] and not is_being_prepared(home, JOB)
    log = home.job_log(JOB)
    log.parent.mkdir()
    log.write_text("base model: step 1500/1500, of an earlier build\n")
    with announced(home, JOB, "base model"):
        (going_on,) = preparations(home)
        assert (going_on.job, going_on.key, going_on.title) == (JOB, "abc", "base model")
        assert (going_on.progress, going_on.done, going_on.total) == ("", None, None), "an earlier build is over"
        with log.open("a") as file:
            file.write("base model: step 51/1500, loss 2.13\n\n")
        assert progress_of(home, JOB) == ("base model: step 51/1500, loss 2.13", 51, 1500)
        (going_on,) = preparations(home)
        assert (going_on.done, going_on.total) == (51, 1500) and going_on.seconds >= 0 and is_being_prepared(home, JOB)
        with announced(home, JOB, "by somebody else"):  # whoever comes second says nothing
            pass
        assert [item.title for item in preparations(home)] == ["base model"]
    assert preparations(home) == [] and not is_being_prepared(home, JOB)


def test_a_killed_process_prepares_nothing_and_is_not_in_the_way(home: Home) -> None:
    pid = os.fork()
    if pid == 0:
        with announced(home, JOB, "killed"):
            time.sleep(60)
        os._exit(0)
    until = time.monotonic() + 30
    while not is_being_prepared(home, JOB) and time.monotonic() < until:
        time.sleep(0.01)
    assert [item.title for item in preparations(home)] == ["killed"]
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    assert preparations(home) == [] and not is_being_prepared(home, JOB)
    with announced(home, JOB, "again"):
        assert [item.title for item in preparations(home)] == ["again"]


def test_damaged_files_are_passed_over(home: Home) -> None:
    home.preparations.mkdir()
    home.preparation(JOB).write_text('{"job": ')
    assert preparations(home) == [] and not is_being_prepared(home, JOB)


def test_what_a_task_that_is_over_has_announced_on_another_machine_is_not_waited_for(home: Home) -> None:
    submission = new_submission(home)
    elsewhere = {"host": "node7", "machine_id": "another", "boot_id": "another", "pid": 1, "pid_start": "1"}
    facts = {"job": JOB, "title": "cut off", **elsewhere, "time": time.time()}
    home.preparations.mkdir()
    task = {"submission": submission.name, "task": 2, "restart": 0}
    home.preparation(JOB).write_text(json.dumps({**facts, "task": task}))
    assert is_being_prepared(home, JOB)
    submission.note_over("failed:node", "gone", task=2)
    assert not is_being_prepared(home, JOB) and preparations(home) == []
    with announced(home, JOB, "again"):
        assert [item.title for item in preparations(home)] == ["again"]
