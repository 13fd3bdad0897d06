"""What a trainer writes, and what of it counts: what a durable checkpoint or the result covers, the first of each."""

import json
import random

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_runs import toy_run

from plat.errors import RunError
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory import run_io
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.checkpoint import list_checkpoints
from plat.store.run_directory.creation import create
from plat.store.run_directory.damage import damage
from plat.store.run_directory.history import run_history
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import last_progress
from plat.trainer.api import State


@pytest.fixture
def paths(tmp_path):
    home = Home(tmp_path / "home").create()
    return create(home, toy_run(), "a", code=CodeState())


def open_io(paths, stop=lambda: False):
    number = len(paths.attempts()) + 1
    return FileRunIO(paths, new_attempt(paths, number), paths.root / "cache", stop)


def state(value):
    return State({"x": numpy.array([float(value)])}, {"value": value})


def values(paths):
    return {(metric.key, metric.step): metric.value for metric in run_history(paths)[0]}


def test_only_covered_steps_count_and_the_first_wins(paths):
    first = open_io(paths)
    assert first.restore() is None and first.load_peak() is None
    for step in range(5):
        first.log(step, {"a": step, "val/success": 0.1 * step})
        first.table("t", step, [step])
        if step == 2:
            first.save(step, state(2), peak=True)
    assert first.success == pytest.approx(0.4) and first.step == 4
    assert {step for _, step in values(paths)} == {0, 1, 2}  # 3 and 4 may still be done again
    second = open_io(paths)
    step, actual = second.restore()
    assert (step, actual.meta["value"]) == (2, 2) and second.load_peak()[0] == 2
    facts = json.loads(paths.attempt(2).meta.read_text())
    assert facts["restored_step"] == 2 and facts["restored_from"] == "attempts/001/checkpoints/step-000002"
    for step in (3, 4, 5):
        second.log(step, {"a": 100 + step})
    second.save(5, state(5))
    second.log(6, {"a": 106})
    assert values(paths)[("a", 2)] == 2 and values(paths)[("a", 3)] == 103 and ("a", 6) not in values(paths)
    second.close()
    paths.result.write_bytes(to_checked_json({"id": paths.id, "outcome": "finished", "attempt": 2}))
    assert values(paths)[("a", 6)] == 106
    assert [table.step for table in run_history(paths)[1]] == [0, 1, 2]


def test_several_logs_of_one_step_are_one_step(paths):
    io = open_io(paths)
    io.log(0, {"a": 1})
    io.log(0, {"b": 2, "a": 9})
    io.save(0, state(0))
    io.log(0, {"c": 3})
    assert values(paths) == {("a", 0): 1, ("b", 0): 2, ("c", 0): 3}


def test_events_are_on_disk_before_the_checkpoint_that_covers_them(paths, monkeypatch):
    order = []
    io = open_io(paths)
    sync, save = io._spool.sync, run_io.save_checkpoint
    monkeypatch.setattr(io._spool, "sync", lambda: (order.append("sync"), sync()))
    monkeypatch.setattr(run_io, "save_checkpoint", lambda *a, **k: (order.append("save"), save(*a, **k)))
    io.log(0, {"a": 1})
    io.save(0, state(0))
    assert order == ["sync", "save"]


@pytest.mark.parametrize("steps", [(3, 2), (-1,), (1.5,)])
def test_steps_must_not_go_back(paths, steps):
    io = open_io(paths)
    with pytest.raises(RunError, match="logged step"):
        for step in steps:
            io.log(step, {"a": 1})


def test_scalars_of_numpy_and_torch_are_numbers(paths):
    import torch

    io = open_io(paths)
    io.log(0, {"n": numpy.float32(0.5), "t": torch.tensor(2.0), "i": numpy.int64(3), "b": True})
    io.save(0, state(0))
    assert values(paths) == {("n", 0): 0.5, ("t", 0): 2.0, ("i", 0): 3.0, ("b", 0): 1.0}


def test_damaged_lines_hide_nothing_else_and_are_reported(paths):
    io = open_io(paths)
    io.log(0, {"a": 1})
    with open(paths.attempt(1).events, "ab") as file:
        file.write(b"\x00\x00garbage\n")
    io.log(1, {"a": 2})
    io.save(1, state(1))
    assert values(paths) == {("a", 0): 1, ("a", 1): 2}
    assert str(damage(paths, *run_history(paths))) == "attempts/001/events.jsonl line 2 is damaged"


def test_stop_is_asked_by_signal_or_by_file(paths):
    io = open_io(paths, stop=lambda: False)
    assert not io.should_stop()
    paths.cancel.touch()
    assert io.should_stop()
    assert open_io(paths, stop=lambda: True).should_stop()


def test_facts_are_recorded_at_once_and_survive_a_restore(paths):
    io = open_io(paths)
    io.facts({"base_sha256": "aa"})
    assert json.loads(paths.attempt(1).meta.read_text())["facts"] == {"base_sha256": "aa"}
    io.facts({"device": "cpu"})
    io.log(0, {"a": 1})
    io.save(0, state(0))
    again = open_io(paths)
    again.facts({"base_sha256": "aa", "other": 1})  # what the first attempt did not name cannot differ
    again.restore()
    meta = json.loads(paths.attempt(2).meta.read_text())
    assert meta["facts"] == {"base_sha256": "aa", "other": 1} and meta["restored_step"] == 0 and meta["attempt"] == 2


def test_a_resume_that_starts_from_something_else_is_refused(paths):
    first = open_io(paths)
    first.facts({"base_sha256": "aa"})
    first.log(0, {"a": 1})
    open_io(paths).facts({"base_sha256": "bb"})  # nothing of the first attempt counts: it has no checkpoint
    first.save(0, state(0))
    third = open_io(paths)
    with pytest.raises(RunError, match="base_sha256 was 'aa' in attempt 1, now it is 'bb'") as error:
        third.facts({"base_sha256": "bb"})
    assert error.value.fix and str(paths.attempt(1).meta) in error.value.render()
    third.facts({"base_sha256": "aa"})


def test_an_attempt_is_made_once(paths):
    new_attempt(paths, 1)
    with pytest.raises(RunError, match="two processes"):
        new_attempt(paths, 1)


@settings(max_examples=40, deadline=None)
@given(kills=st.lists(st.tuples(st.integers(1, 14), st.booleans()), max_size=5), seed=st.integers(0, 9))
def test_any_sequence_of_kills_gives_the_undisturbed_history(tmp_path_factory, kills, seed):
    """A model trainer: killed after some events; now and then its newest checkpoint is damaged as well."""
    home = Home(tmp_path_factory.mktemp("h")).create()
    paths = create(home, toy_run(seed=seed), "a", code=CodeState())
    last, every = 12, 3

    def value(step):
        return random.Random(seed * 1000 + step).random()

    for budget, harmed in [*kills, (None, False)]:
        io = open_io(paths)
        actual = io.restore()
        start = -1 if actual is None else actual[0]
        assert actual is None or actual[1].meta["value"] == value(start)
        for count, step in enumerate(range(start + 1, last + 1)):
            if budget is not None and count >= budget:
                break
            io.log(step, {"v": value(step)})
            io.table("t", step, step)
            if step % every == 0:
                io.save(step, State({"x": numpy.zeros(1)}, {"value": value(step)}))
        if harmed and (saved := list_checkpoints(paths.attempts()[-1].checkpoints)):
            (saved[-1][1] / "meta.json").write_text("{")
        partial = values(paths)
        assert all(actual == value(step) for (_, step), actual in partial.items())
        assert sorted(step for _, step in partial) == list(range(len(partial)))
    result = {"id": paths.id, "outcome": "finished", "attempt": len(paths.attempts())}
    paths.result.write_bytes(to_checked_json(result))
    assert values(paths) == {("v", step): value(step) for step in range(last + 1)}
    assert [table.step for table in run_history(paths)[1]] == list(range(last + 1))


def test_late_metrics_count_if_they_were_logged_before_the_checkpoint(paths):
    first = open_io(paths)
    first.log(20, {"loss": 1})
    first.log(1, {"val": 2}, late=True)
    assert first.step == 20
    first.save(20, state(20))
    first.log(2, {"val": 3}, late=True)
    with pytest.raises(RunError, match="logged step 2 after step 20"):
        first.log(2, {"loss": 3})
    with pytest.raises(RunError, match="logged step -1"):
        first.log(-1, {"loss": 3}, late=True)
    assert values(paths) == {("loss", 20): 1, ("val", 1): 2}
    assert last_progress(paths.attempt(1).events)[0] == 20
    second = open_io(paths)
    second.restore()
    second.log(2, {"val": 4}, late=True)
    second.save(20, state(20))
    assert (
        values(paths) == {("loss", 20): 1, ("val", 1): 2, ("val", 2): 4} and damage(paths, *run_history(paths)) is None
    )
