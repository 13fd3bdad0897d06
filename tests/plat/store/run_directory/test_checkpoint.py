"""Checkpoints: they come back bit for bit, damage is seen, an older one is used, and only the right ones are kept."""

import json
import logging
import random
import resource
import shutil

import numpy
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from newest_checkpoint import newest_valid

from plat.errors import CheckpointError
from plat.store.run_directory import checkpoint
from plat.store.run_directory.checkpoint import (
    list_checkpoints,
    load_checkpoint,
    newest_own,
    prune,
    save_checkpoint,
)
from plat.trainer.api import State


def state(seed=0):
    return State({"w": numpy.random.default_rng(seed).normal(size=(4, 3))}, {"step": seed, "rng": [1, [2, 3], None]})


def test_numpy_comes_back_as_numpy_and_torch_as_torch(tmp_path):
    arrays = {"w": numpy.arange(6.0).reshape(2, 3).T, "n": numpy.array(3), "e": numpy.zeros((0, 2), dtype=numpy.int64)}
    path = save_checkpoint(tmp_path, 1, State(arrays, {"a": (1, 2), "nan": float("nan"), "big": 2**80, 3: "three"}))
    actual = load_checkpoint(path)
    for key, value in arrays.items():
        assert actual.tensors[key].dtype == value.dtype and actual.tensors[key].shape == value.shape
        assert numpy.array_equal(actual.tensors[key], value)
    assert actual.meta["a"] == [1, 2] and actual.meta["nan"] != actual.meta["nan"] and actual.meta["big"] == 2**80
    assert actual.meta["3"] == "three"
    shared = torch.randn(4, 4)
    tensors = {
        "tied": shared,
        "view": shared[1:, :2].T,
        "half": shared.to(torch.bfloat16),
        "rng": torch.get_rng_state(),
    }
    actual = load_checkpoint(save_checkpoint(tmp_path, 2, State(tensors)))
    assert all(torch.equal(actual.tensors[key], value) for key, value in tensors.items())
    assert actual.tensors["half"].dtype == torch.bfloat16


@settings(max_examples=40, deadline=None)
@example(where=0.15625, how="flip", name="meta")  # the name of a field
@given(where=st.floats(0, 1), how=st.sampled_from(["cut", "flip", "zero"]), name=st.sampled_from(["meta", "tensors"]))
def test_any_damage_is_seen(tmp_path_factory, where, how, name):
    path = save_checkpoint(tmp_path_factory.mktemp("c"), 1, state())
    file = path / ("meta.json" if name == "meta" else "tensors.safetensors")
    data = bytearray(file.read_bytes())
    index = min(int(where * len(data)), len(data) - 2)
    if how == "cut":
        data = data[:index]
    elif how == "flip":
        data[index] ^= 0x04
    else:
        data[index:] = bytes(len(data) - index)
    file.write_bytes(data)
    try:
        actual = load_checkpoint(path)
    except CheckpointError as error:
        assert error.where == str(path) and error.fix
    else:  # damage of a field that says nothing about the state, or of white space
        assert name == "meta" and actual.meta == state().meta
        assert numpy.array_equal(actual.tensors["w"], state().tensors["w"])


def test_a_damaged_one_falls_back_to_an_older_one_of_any_attempt(tmp_path, caplog):
    first, second = tmp_path / "001", tmp_path / "002"
    save_checkpoint(first, 10, state(10))
    save_checkpoint(first, 20, state(20), peak=True)
    save_checkpoint(second, 30, state(30))
    assert newest_valid([first, second]) == (30, second / "step-000030")
    (second / "step-000030" / "meta.json").unlink()
    (first / "step-000020" / "tensors.safetensors").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert newest_valid([first, second]) == (10, first / "step-000010")
    assert "step-000030" in caplog.text and "step-000020" in caplog.text
    assert newest_valid([first, second], peak=True) is None
    assert newest_valid([tmp_path / "nothing"]) is None


def test_two_newest_and_newest_peak_are_kept(tmp_path):
    peaks = {2, 5}
    for step in range(1, 10):
        save_checkpoint(tmp_path, step, state(step), peak=step in peaks)
        prune(tmp_path)
        kept = [step for step, _ in list_checkpoints(tmp_path)]
        assert kept == sorted(
            {*range(max(1, step - 1), step + 1), *([max(p for p in peaks if p <= step)] if step > 1 else [])}
        )
    assert newest_own(tmp_path) == (9, tmp_path / "step-000009")
    assert newest_own(tmp_path / "nothing") is None
    assert newest_valid([tmp_path], peak=True) == (5, tmp_path / "step-000005")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000005", "step-000008", "step-000009"]


def test_the_same_step_again_replaces_it_and_stays_a_peak(tmp_path):
    save_checkpoint(tmp_path, 4, state(1), peak=True)
    path = save_checkpoint(tmp_path, 4, state(2))
    assert load_checkpoint(path).meta["step"] == 2 and newest_valid([tmp_path], peak=True) == (4, path)


def test_a_kill_at_any_point_of_saving_leaves_the_old_ones_and_no_half_one(tmp_path, monkeypatch):
    for point in ("write_file", "to_json", "rename"):
        folder = tmp_path / point
        save_checkpoint(folder, 1, state(1))

        class Killed(BaseException):
            pass

        def die(*arguments, **more):
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(checkpoint.os if point == "rename" else checkpoint, point, die)
            patch.setattr(shutil, "rmtree", lambda *a, **k: None)  # a killed process does not tidy up either
            with pytest.raises(Killed):
                save_checkpoint(folder, 2, state(2))
        assert newest_valid([folder]) == (1, folder / "step-000001")
        save_checkpoint(folder, 2, state(2))
        assert newest_valid([folder]) == (2, folder / "step-000002")


def test_a_full_disk_raises_and_leaves_what_was_there(tmp_path):
    import os
    import signal

    save_checkpoint(tmp_path, 1, state(1))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
            try:
                save_checkpoint(tmp_path, 2, state(2))
            except OSError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def test_a_checkpoint_of_a_newer_plat_says_so(tmp_path):
    path = save_checkpoint(tmp_path, 1, state())
    meta = json.loads((path / "meta.json").read_text()) | {"format": 99}
    (path / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(CheckpointError, match="newer plat"):
        load_checkpoint(path)


def test_names_that_are_not_checkpoints_are_ignored(tmp_path):
    save_checkpoint(tmp_path, random.randrange(5), state())
    for name in ("step-abc", "step-²", "step-" + "9" * 99):
        (tmp_path / name).mkdir()
    (tmp_path / ".tmp-1-1-step-000099").mkdir()
    assert len(list_checkpoints(tmp_path)) == 1


def test_a_checkpoint_of_another_run_or_step_is_not_used(tmp_path, caplog):
    own, other = (tmp_path / run / "attempts" / "001" / "checkpoints" for run in ("a" * 16, "b" * 16))
    save_checkpoint(own, 2, state(2))
    strange = save_checkpoint(other, 8, state(8))
    shutil.copytree(strange, own / "step-000008")
    shutil.copytree(own / "step-000002", own / "step-000006")
    with pytest.raises(CheckpointError, match=f"of another run, {'b' * 16}"):
        load_checkpoint(own / "step-000008")
    with pytest.raises(CheckpointError, match="it is of step 2"):
        load_checkpoint(own / "step-000006")
    with caplog.at_level(logging.WARNING):
        newest = newest_valid([own])
    assert newest == (2, own / "step-000002") and "another run" in caplog.text
    assert load_checkpoint(shutil.copytree(strange, tmp_path / "kept")).meta["step"] == 8, "outside nothing is known"
