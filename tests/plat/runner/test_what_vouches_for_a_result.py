"""What vouches for a result: checksums, counts, hashes. Without one of them a run is damaged, and says how to fix."""

from __future__ import annotations

import json
import shutil

import pytest
from runner_runs import make, undisturbed
from toy_runs import comparable

from plat.errors import HomeError
from plat.runner.execution import execute
from plat.store.disk.durable import read_json, to_checked_json
from plat.store.mlflow import run_record
from plat.store.mlflow.run_record import read_record
from plat.store.run_directory.checkpoint import list_checkpoints
from plat.store.run_directory.run_files import read_meta
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state

OUTCOME_FIX = "remove the run's result.json"


@pytest.fixture
def done(home):
    paths = make(home)
    assert execute(home, paths.id) == "finished"
    return paths


@pytest.fixture
def resumed(home, monkeypatch):
    paths = make(home)
    with monkeypatch.context() as patch:
        patch.setattr(FileRunIO, "should_stop", lambda self: self.step == 4)
        assert execute(home, paths.id) == "interrupted"
    assert execute(home, paths.id) == "finished"
    return paths


def test_a_run_that_ends_while_it_is_read_is_read_whole(done, monkeypatch):
    """Its result appears between the read of its history, which then lacks the end, and that of the result."""
    whole, result = read_record(done), done.result.read_bytes()
    done.result.unlink()
    shutil.rmtree(done.attempt(1).checkpoints)  # else the newest one may cover all events
    first_half = read_record(done)
    assert first_half.status == "RUNNING" and len(first_half.metrics) < len(whole.metrics)
    reads = []

    def history(paths):
        reads.append(run_history(paths))
        paths.result.write_bytes(result)
        return reads[-1]

    run_history = run_record.run_history
    monkeypatch.setattr(run_record, "run_history", history)
    record = read_record(done)
    assert len(reads) == 2 and record.status == "FINISHED"
    assert (record.metrics, record.tables) == (whole.metrics, whole.tables)


def edit(path, checked=False, **values):
    content = {**read_json(path), **values}
    path.write_bytes(to_checked_json(content) if checked else json.dumps(content).encode())


def cut(path, lines):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


@pytest.mark.parametrize("content", ["x", "", "{}", None])
def test_a_damaged_or_lost_outcome_of_a_done_run_is_named_and_mended(home, tmp_path, done, content):
    outcome = done.attempt(1).outcome
    outcome.unlink() if content is None else outcome.write_text(content)
    problem = read_record(done).damage
    assert str(problem).startswith("attempts/001/outcome.json is ") and OUTCOME_FIX in problem.fix
    done.result.unlink()
    assert execute(home, done.id) == "finished" and read_record(done).damage is None
    assert comparable(done) == undisturbed(tmp_path)


@pytest.mark.parametrize("lines", [1, 3])
def test_a_cut_end_is_noticed_without_the_outcome(done, lines):
    done.attempt(1).outcome.unlink()
    cut(done.attempt(1).events, lines)
    assert str(read_record(done).damage).startswith("attempts/001/events.jsonl lacks event")


def test_a_cut_end_of_an_earlier_attempt_is_noticed_without_its_checkpoint(resumed):
    _, newest = list_checkpoints(resumed.attempt(1).checkpoints)[-1]
    (newest / "meta.json").write_text("{")
    cut(resumed.attempt(1).events, 1)
    assert str(read_record(resumed).damage).startswith("attempts/001/events.jsonl lacks event")


def test_an_attempt_that_the_result_was_made_of_is_missed(resumed):
    resumed.attempt(2).meta.unlink()  # it says what the attempt was resumed from
    (resumed.root / "attempts" / "001").rename(resumed.root / "elsewhere")
    assert str(read_record(resumed).damage) == "attempts/001 (or its checkpoints) is gone"


@pytest.mark.parametrize(
    "values", [{}, {"outcome": "failed:nan"}, {"attempt": 2}, {"id": "other"}, {"success": 0.05}, {"step": 3}]
)
def test_a_result_without_its_checksum_makes_no_run_done(home, done, values):
    edit(done.result, **values)
    state = run_state(done)
    assert state.state == "interrupted" and state.damage.startswith("result.json is ")
    assert execute(home, done.id) == "finished" and run_state(done).state == "done"


@pytest.mark.parametrize("name", ["outcome.json", "attempt.json"])
def test_an_attempt_file_without_its_checksum_is_damaged(done, name):
    edit(done.attempt(1).root / name)
    assert str(read_record(done).damage) == f"attempts/001/{name} is damaged: it has no checksum"


def test_an_outcome_that_says_something_else_than_the_result_is_damage(done):
    edit(done.attempt(1).outcome, checked=True, time=1.0)
    assert str(read_record(done).damage) == "attempts/001/outcome.json does not match result.json: time differs"


def test_a_commit_cannot_be_edited(done):
    meta = read_json(done.meta)
    edit(done.meta, code={**meta["code"], "commit": "f" * 40})
    assert read_record(done) is None
    with pytest.raises(HomeError, match="missing or damaged"):
        read_meta(done)


@pytest.mark.parametrize("harm", ["edit", "remove", "add code.diff"])
def test_the_recorded_code_cannot_be_edited(home, done, harm):
    if harm == "add code.diff":
        done.diff.write_text("+ x\n")
    else:
        done.code.unlink() if harm == "remove" else done.code.write_text("commit: 1234\n")
    problem = read_record(done).damage
    assert str(problem).startswith("code.") and "restore the recorded file" in problem.fix
    make(home)
    assert read_record(done).damage == problem, "another plat's code is not recorded as the one that made the run"


def test_code_that_a_power_cut_took_before_the_start_is_recorded_anew(home):
    paths = make(home)
    paths.code.write_text("")
    make(home)
    assert paths.code.read_text() and execute(home, paths.id) == "finished" and read_record(paths).damage is None


def test_a_whole_directory_of_another_run_is_refused_until_it_is_put_back(home, done):
    other = make(home, seed=1)
    done.root.rename(done.root.with_name("aside"))
    other.root.rename(done.root)
    with pytest.raises(HomeError, match=f"meta.json is of run {other.id}") as caught:
        make(home)
    assert "back into that run's directory" in caught.value.fix and run_state(done).state == "missing"
    done.root.rename(other.root)
    done.root.with_name("aside").rename(done.root)
    make(home)
    assert run_state(done).state == "done" and read_record(done).damage is None
