"""A trainer whose checkpoints are files, killed while it writes one: the next attempt goes on from the one before."""

import os
import signal

import plat_toy
import pytest
from runner_runs import make

from plat.runner.execution import execute
from plat.store.run_directory.checkpoint import list_checkpoints, load_checkpoint
from plat.store.run_directory.run_files import read_attempt_meta
from plat.trainer.api import Outcome, State


def train(config, io):
    """Counts to six, and keeps the count in a file. Where the cache has `killed-N`, dies while it writes step N."""
    restored = io.restore()
    count = 0
    if restored is not None:
        step, state = restored
        count = int((state.files / "count" / "value.txt").read_text())
        assert count == step and state.tensors == {} and state.meta == {"count": count}

    def write(folder):
        (folder / "count").mkdir()
        (folder / "count" / "value.txt").write_text(str(count))
        if (io.cache / f"killed-{count}").exists():
            (io.cache / f"killed-{count}").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    while count < 6:
        count += 1
        io.log(count, {"val/success": count / 6})
        io.save(count, State({}, {"count": count}), peak=count == 2, write_files=write)
    step, peak = io.load_peak()
    assert (peak.files / "count" / "value.txt").read_text() == str(step) == "2"
    return Outcome("finished")


@pytest.fixture
def run(home, monkeypatch):
    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(train))
    return make(home)


def in_a_process(home, run):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if execute(home, run.id) == "finished" else 1)
    return os.waitpid(pid, 0)[1]


def leftovers(run):
    return list(run.root.rglob(".tmp-*"))


def test_files_are_restored_and_leftovers_go_with_the_next_attempt(home, run):
    for step in (1, 3, 5):
        (home.cache / f"killed-{step}").touch()
    for _ in range(3):
        assert os.WIFSIGNALED(in_a_process(home, run)) and len(leftovers(run)) == 1
    assert in_a_process(home, run) == 0 and leftovers(run) == []
    restored = [int(path.name) for path in (run.root / "attempts").iterdir()]
    assert sorted(restored) == [1, 2, 3, 4]
    kept = [step for attempt in run.attempts() for step, _ in list_checkpoints(attempt.checkpoints)]
    assert kept == [1, 2, 3, 4, 5, 6], "the second attempt saved 1 and 2, the third 3 and 4, the last 5 and 6"


def test_the_hashes_decide_from_where_it_goes_on(home, run):
    (home.cache / "killed-5").touch()
    in_a_process(home, run)
    newest = run.attempt(1).checkpoints / "step-000004"
    (newest / "files" / "count" / "value.txt").write_text("7")
    assert in_a_process(home, run) == 0
    assert read_attempt_meta(run.attempt(2))["restored_step"] == 3
    steps = [step for step, _ in list_checkpoints(run.attempt(2).checkpoints)]
    assert steps == [5, 6] and load_checkpoint(run.attempt(2).checkpoints / "step-000006").files
