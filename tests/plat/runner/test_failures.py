"""Whatever a trainer or the system raises has a class, a reason, and leaves what was recorded."""

import errno
import json
import os
import signal
from pathlib import Path

import plat_toy
import pytest
from filelock import SoftFileLock, Timeout
from runner_runs import make, outcome_of
from toy_runs import no_step_twice

from plat.dispatch.local.worker import work
from plat.errors import HomeError, RunError, SpecError
from plat.processes import identification
from plat.runner import attempt as runner_attempt
from plat.runner.execution import execute
from plat.runner.failures import classify
from plat.store.disk.durable import locked
from plat.store.run_directory import lease
from plat.store.run_directory.state import run_state
from plat.trainer.api import Outcome


@pytest.mark.parametrize(
    ("mischief", "outcome", "word"),
    [
        ("nan", "failed:nan", "not a number"),
        ("memory", "failed:oom", "MemoryError"),
        ("error", "failed:error", "a mistake in the toy"),
    ],
)
def test_failures_have_a_class_a_reason_and_a_traceback(home, mischief, outcome, word):
    paths = make(home, mischief=mischief)
    assert execute(home, paths.id) == outcome
    recorded = outcome_of(paths)
    assert recorded["outcome"] == outcome and word in recorded["reason"] + recorded["error"] and recorded["step"] == 3
    assert "Traceback" in paths.attempt(1).log.read_text() and not paths.result.exists()
    assert run_state(paths).state == "failed" and lease.state(paths) == "free" and not home.history.exists()


def test_a_full_disk_is_its_own_class_and_what_was_recorded_stays(home):
    paths = make(home, mischief="disk")
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        os._exit({"failed:disk": 0}.get(execute(home, paths.id), 1))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_state(paths).outcome == "failed:disk"
    assert (paths.attempt(1).checkpoints / "step-000002").exists()


def test_a_disk_too_full_for_the_outcome_still_ends_in_class_disk(home, monkeypatch):
    paths = make(home)

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(runner_attempt, "create", full)
        ended = work({"home": str(home.root), "kind": "run", "run_id": paths.id, "steal": False})
    assert ended["outcome"] == "failed:disk" and "No space left" in ended["reason"]
    assert not paths.result.exists() and lease.state(paths) == "free"
    assert execute(home, paths.id) == "finished" and no_step_twice(paths)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_on_a_file_system_without_locks_the_exclusive_files_do(home, monkeypatch, number):
    paths = make(home)

    def refuse(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refuse)
    held = lease.take(paths)
    assert held is not None and lease.state(paths) == "live"
    assert lease.take(paths) is None and lease.take(paths, steal=True) is None
    held.release()
    facts = identification.this_process() | {"pid": 1 << 22, "attempt": 1}  # a number that no process has
    paths.lease.write_text(json.dumps(facts))
    assert lease.state(paths) == "orphan"
    with locked(home.meta_lock), pytest.raises(Timeout):
        SoftFileLock(f"{home.meta_lock}.exclusive", timeout=0).acquire()
    assert execute(home, paths.id) == "finished" and no_step_twice(paths)


def test_a_lock_that_cannot_be_had_for_another_reason_is_said(home, monkeypatch):
    paths = make(home)

    def refuse(*arguments):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(HomeError, match="cannot lock the run: Input/output error") as error:
        execute(home, paths.id)
    assert error.value.where == str(paths.lock)
    with pytest.raises(HomeError, match="Input/output error") as error, locked(home.meta_lock):
        pass
    assert error.value.where == str(home.meta_lock)


def test_a_summary_that_is_not_json_is_the_trainers_mistake(home, monkeypatch):
    paths = make(home)
    monkeypatch.setattr(plat_toy.Toy, "train", lambda self, config, io: Outcome("finished", {"x": {1, 2}}))
    assert execute(home, paths.id) == "failed:error"
    reason = outcome_of(paths)["reason"]
    assert "the summary that the trainer 'plat_toy:Toy' returned cannot be saved as JSON" in reason


def test_a_trainer_that_returns_no_outcome_is_named_with_its_line(home, monkeypatch):
    def forgetful(config, io):
        io.log(0, {"val/success": 0.5})

    paths = make(home)
    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(forgetful))
    assert execute(home, paths.id) == "failed:error"
    line = forgetful.__code__.co_firstlineno
    where, fix = f"{__file__}:{line}", 'end it with `return Outcome("finished")`'
    assert outcome_of(paths)["reason"] == f"the trainer 'toy' returned None, not an Outcome ({where}); fix: {fix}"


def test_the_reason_names_the_line_of_the_trainers_code(home):
    paths = make(home, mischief="error")
    execute(home, paths.id)
    reason = outcome_of(paths)["reason"]
    place = reason.removeprefix("ValueError: a mistake in the toy (").removesuffix(")")
    file, _, line = place.rpartition(":")
    assert file == plat_toy.__file__
    assert "a mistake in the toy" in Path(file).read_text().splitlines()[int(line) - 1]


def test_the_reason_says_how_to_mend_what_a_trainer_refuses(home, monkeypatch):
    def refuse(config, io):
        raise SpecError("the batch\nis odd", where="train.batch", fix="make it even")

    paths = make(home)
    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(refuse))
    assert execute(home, paths.id) == "failed:error"
    assert run_state(paths).reason == "the batch is odd; fix: make it even"
    long = classify(SpecError("word " * 500, fix="fix " * 500))[1]
    assert len(long) < 520 and "; fix: fix" in long


class OutOfMemoryError(RuntimeError):
    """As torch's, by name."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RunError("x", failure_class="nan"), "failed:nan"),
        (RunError("x"), "failed:error"),
        (FloatingPointError("overflow"), "failed:nan"),
        (MemoryError(), "failed:oom"),
        (OutOfMemoryError("CUDA"), "failed:oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "failed:oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "failed:oom"),
        (OSError(errno.ENOSPC, "full"), "failed:disk"),
        (OSError(errno.EDQUOT, "quota"), "failed:disk"),
        (OSError(errno.ENOENT, "absent"), "failed:error"),
        (SystemExit(3), "failed:error"),
        (SpecError("wrong"), "failed:error"),
        (KeyError("k"), "failed:error"),
    ],
)
def test_classes(error, expected):
    assert classify(error)[0] == expected
    wrapped = RuntimeError("while training")
    wrapped.__cause__ = error
    assert classify(wrapped)[0] == expected
    assert "\n" not in classify(error)[1]
