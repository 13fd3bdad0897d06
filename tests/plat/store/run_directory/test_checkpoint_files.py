"""Checkpoints that are files: written in place, checked by hash, and old or new but never half after a SIGKILL."""

import linecache
import os
import shutil
import signal
import sys
import tracemalloc
from pathlib import Path

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from newest_checkpoint import newest_valid

from plat.errors import CheckpointError, RunError
from plat.store.disk import durable
from plat.store.run_directory import checkpoint, folder_manifest
from plat.store.run_directory.checkpoint import (
    list_checkpoints,
    load_checkpoint,
    prune,
    save_checkpoint,
)
from plat.trainer.api import State

TRACED = {module.__file__ for module in (checkpoint, folder_manifest, durable, shutil)}
REMOVES = ("os.unlink(", "os.rmdir(")


def state(number):
    return State({"w": numpy.full(3, float(number))}, {"number": number})


def files(number, size=1000):
    """Writes two files in a folder of their own, and one of the libraries' hidden ones."""

    def write(folder: Path) -> None:
        (folder / "actor").mkdir()
        (folder / "actor" / "shard-0.pt").write_bytes(bytes([number]) * size)
        (folder / "actor" / "shard-1.pt").write_bytes(b"")
        (folder / ".complete").write_text(str(number))

    return write


def save(folder, step, number=None, **more):
    number = step if number is None else number
    return save_checkpoint(folder, step, state(number), write_files=files(number), **more)


def number_in(path):
    """Which state a checkpoint holds; all of its parts must be of the same."""
    loaded = load_checkpoint(path)
    content = (loaded.files / "actor" / "shard-0.pt").read_bytes()
    assert content == bytes([loaded.meta["number"]]) * 1000 and (loaded.files / "actor" / "shard-1.pt").exists()
    assert (loaded.files / ".complete").read_text() == str(loaded.meta["number"]) == f"{loaded.tensors['w'][0]:.0f}"
    return loaded.meta["number"]


def test_files_come_back_beside_tensors_and_are_kept_by_the_same_rules(tmp_path):
    for step in range(1, 6):
        path = save(tmp_path, step, peak=step == 2)
        prune(tmp_path)
    assert [step for step, _ in list_checkpoints(tmp_path)] == [2, 4, 5]
    assert newest_valid([tmp_path], peak=True) == (2, tmp_path / "step-000002")
    assert load_checkpoint(path).files == path / "files" and number_in(path) == 5
    without = save_checkpoint(tmp_path, 6, state(6))
    assert load_checkpoint(without).files is None and not (without / "files").exists()


def test_the_format_of_a_checkpoint_without_files_is_as_it_was(tmp_path):
    """So that an earlier plat goes on from it; one with files is refused there, because its files would be ignored."""
    assert checkpoint._read_meta(save_checkpoint(tmp_path, 1, state(1)))["format"] == 1
    assert checkpoint._read_meta(save(tmp_path, 2))["format"] == 2


def damage_a_byte(folder):
    file = folder / "actor" / "shard-0.pt"
    file.write_bytes(file.read_bytes()[:-1] + b"\xff")


DAMAGES = {
    "a byte": damage_a_byte,
    "a shorter file": lambda folder: os.truncate(folder / "actor" / "shard-0.pt", 999),
    "a missing file": lambda folder: (folder / "actor" / "shard-1.pt").unlink(),
    "a missing hidden file": lambda folder: (folder / ".complete").unlink(),
    "a further file": lambda folder: (folder / "actor" / "shard-2.pt").write_bytes(b"x"),
    "a folder in a file's place": lambda folder: (
        (folder / "actor" / "shard-1.pt").unlink(),
        (folder / "actor" / "shard-1.pt").mkdir(),
    ),
    "a link in a file's place": lambda folder: (
        (folder / "actor" / "shard-1.pt").unlink(),
        (folder / "actor" / "shard-1.pt").symlink_to("/dev/null"),
    ),
    "no files at all": shutil.rmtree,
    "a pipe in a file's place": lambda folder: (
        (folder / "actor" / "shard-0.pt").unlink() or os.mkfifo(folder / "actor" / "shard-0.pt")
    ),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_one_falls_back_to_the_one_before(tmp_path, damage, caplog):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    damage(newest / "files")
    with pytest.raises(CheckpointError, match="files: ") as error:
        load_checkpoint(newest)
    assert error.value.where == str(newest) and error.value.fix
    assert newest_valid([tmp_path]) == (1, tmp_path / "step-000001") and "step-000002" in caplog.text


def test_what_file_systems_leave_behind_is_no_damage(tmp_path):
    path = save(tmp_path, 1)
    (path / "files" / "actor" / ".nfs0001").write_bytes(b"x")
    assert number_in(path) == 1


@settings(max_examples=30, deadline=None)
@given(
    contents=st.dictionaries(
        st.lists(st.sampled_from(["a", "b", "ü"]), min_size=1, max_size=3).map("/".join), st.binary(), max_size=4
    ),
    data=st.data(),
)
def test_any_changed_file_of_any_folder_is_seen(tmp_path_factory, contents, data):
    folder = tmp_path_factory.mktemp("files")
    names = [name for name in contents if not any(other.startswith(f"{name}/") for other in contents)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(contents[name])
    sealed = folder_manifest.seal(folder)
    assert sorted(sealed) == sorted(names) and folder_manifest.damage(folder, sealed) == ""
    if names:
        chosen = folder / data.draw(st.sampled_from(names))
        other = data.draw(st.binary().filter(lambda content: content != chosen.read_bytes()))
        chosen.write_bytes(other)
        assert folder_manifest.damage(folder, sealed)


def test_a_file_larger_than_memory_never_passes_through_it(tmp_path):
    """Writing the manifest and checking it take a small part of the file's size."""

    def write(folder):
        (folder / "shard.pt").touch()
        os.truncate(folder / "shard.pt", 100_000_000)

    tracemalloc.start()
    try:
        load_checkpoint(save_checkpoint(tmp_path, 1, state(1), write_files=write))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_what_is_no_file_is_refused_and_nothing_is_left(tmp_path, kind):
    def write(folder):
        (folder / "link").symlink_to("/etc/hostname") if kind == "link" else os.mkfifo(folder / "pipe")

    save(tmp_path, 1)
    with pytest.raises(RunError, match="neither a file nor a folder"):
        save_checkpoint(tmp_path, 2, state(2), write_files=write)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def removes(frame):
    """Whether the line of shutil that is executed next removes a file or a folder."""
    return linecache.getline(shutil.__file__, frame.f_lineno).strip().startswith(REMOVES)


def killed_at_line(number, work):
    """Do some work in a process that kills itself at the n-th line of our code; whether it got that far."""
    pid = os.fork()
    if pid == 0:
        lines = 0

        def trace(frame, event, argument):
            nonlocal lines
            if frame.f_code.co_filename not in TRACED:
                return None
            if event == "line" and (frame.f_code.co_filename != shutil.__file__ or removes(frame)):
                lines += 1
                if lines == number:
                    os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            work()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(
    "step", [2, pytest.param(1, marks=pytest.mark.long)], ids=["a new step", "the same step again"]
)
def test_a_kill_at_any_line_leaves_the_old_or_the_new_one(tmp_path, monkeypatch, step):
    """With SIGKILL at each line in turn of our code that saves and prunes, and before each file that is removed."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # a killed process loses nothing that it has written
    numbers, line, killed = set(), 0, True
    while killed:
        line += 1
        folder = tmp_path / str(line)
        save(folder, 1, number=1)
        killed = killed_at_line(line, lambda folder=folder: (save(folder, step, number=2), prune(folder, keep=1)))
        newest = newest_valid([folder])
        assert newest is not None and len(list_checkpoints(folder)) in (1, 2), line
        numbers.add(number_in(newest[1]))
        assert all(number_in(path) in (1, 2) for _, path in list_checkpoints(folder))
        durable.remove_scratch(folder)
        assert not list(folder.glob(".tmp-*"))
        save(folder, step, number=3)
        assert number_in(folder / f"step-{step:06d}") == 3
        shutil.rmtree(folder)
    assert numbers == {1, 2} and line > 50


def test_without_an_exchange_of_names_the_same_step_is_replaced_too(tmp_path, monkeypatch):
    """On a file system that cannot swap two names."""
    monkeypatch.setattr(durable, "exchange", lambda one, other: False)
    save(tmp_path, 1, number=1, peak=True)
    path = save(tmp_path, 1, number=2)
    assert number_in(path) == 2 and checkpoint.is_peak(path) and len(list(tmp_path.iterdir())) == 1


def test_an_exchange_swaps_two_names(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "other").write_text("x")
    assert durable.exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one").read_text() == "x" and (tmp_path / "other").is_dir()
    assert not durable.exchange(tmp_path / "one", tmp_path / "nothing") and (tmp_path / "one").exists()
