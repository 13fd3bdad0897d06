"""Damaged files of a run are set aside or refused; they never change its numbers."""

import json
import os
import shutil

import pytest
from runner_runs import make, undisturbed
from toy_runs import comparable

from plat.errors import CheckpointError, HomeError
from plat.runner.execution import execute
from plat.store.home import Home
from plat.store.mlflow.run_record import read_record
from plat.store.run_directory.checkpoint import is_peak, list_checkpoints, load_checkpoint
from plat.store.run_directory.run_files import set_damaged_config_aside
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state


def interrupted(home, monkeypatch, **options):
    """A run that was stopped after a checkpoint, and its paths."""
    paths = make(home, **options)
    with monkeypatch.context() as patch:
        patch.setattr(FileRunIO, "should_stop", lambda self: self.step == 4)
        assert execute(home, paths.id) == "interrupted"
    return paths


def test_an_edited_config_is_not_executed(home, monkeypatch):
    paths = interrupted(home, monkeypatch)
    paths.config.write_text(paths.config.read_text().replace("seed: 0", "seed: 1"))
    with pytest.raises(HomeError, match=r"config\.yaml differs from the config that the run was made with"):
        execute(home, paths.id)
    assert set_damaged_config_aside(paths) == paths.root / "config.yaml.damaged-1"
    make(home)
    assert execute(home, paths.id) == "finished"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"step": 6}', "flip", "folder"])
def test_a_damaged_result_is_set_aside_and_the_run_completes(home, tmp_path, damage):
    paths = make(home)
    execute(home, paths.id)
    whole = paths.result.read_bytes()
    if damage == "folder":
        paths.result.unlink()
        paths.result.mkdir()
    else:
        paths.result.write_bytes(whole.replace(b'"step": 6', b'"step": 7') if damage == "flip" else damage.encode())
    now = run_state(paths)
    assert (now.state, now.reason) == ("interrupted", now.damage) and now.damage.startswith("result.json is damaged")
    assert execute(home, paths.id) == "finished" and run_state(paths).state == "done"
    assert f"{now.damage}; it is now result.json.damaged-1" in paths.attempt(2).log.read_text()
    assert (paths.root / "result.json.damaged-1").exists()
    assert comparable(paths) == undisturbed(tmp_path)


@pytest.mark.parametrize("damage", ["remove a line", "garble a line", "flip a digit", "remove the file"])
def test_damaged_events_of_an_earlier_attempt_are_done_again(home, tmp_path, monkeypatch, damage):
    paths = interrupted(home, monkeypatch)
    events = paths.attempt(1).events
    lines = events.read_bytes().splitlines(keepends=True)
    if damage == "remove a line":
        events.write_bytes(b"".join(lines[:3] + lines[4:]))
    elif damage == "garble a line":
        events.write_bytes(b"".join([*lines[:3], b"garbage\n", *lines[4:]]))
    elif damage == "flip a digit":
        events.write_bytes(events.read_bytes().replace(b'"walk/norm":1', b'"walk/norm":2'))
    else:
        events.unlink()
    assert damage != "flip a digit" or events.read_bytes() != b"".join(lines)
    assert execute(home, paths.id) == "finished"
    assert "the attempts so far are now in attempts.damaged-1" in paths.attempt(2).log.read_text()
    assert comparable(paths) == undisturbed(tmp_path) and (paths.root / "attempts.damaged-1/001").is_dir()


@pytest.mark.parametrize("finished", [False, True])
def test_a_folder_where_a_file_should_be_and_the_other_way_round(home, tmp_path, monkeypatch, finished):
    """Whatever is in the way below the run's directory, the run completes, or a HomeError names the place."""
    paths = make(home) if finished else interrupted(home, monkeypatch)
    if finished:
        execute(home, paths.id)
    for name in sorted(path.relative_to(paths.root) for path in paths.root.rglob("*")):
        other = Home(tmp_path / "other")
        shutil.rmtree(other.root, ignore_errors=True)
        shutil.copytree(home.root, other.root)
        place = other.run(paths.id)
        if (place.root / name).is_dir():
            shutil.rmtree(place.root / name)
            (place.root / name).write_text("")
        else:
            (place.root / name).unlink()
            (place.root / name).mkdir()
        run_state(place), read_record(place)
        try:
            set_damaged_config_aside(place)
            make(other)
            assert execute(other, place.id) == "finished" and run_state(place).state == "done", name
        except HomeError as error:
            assert str(name) in error.render() and error.fix, name


def test_a_damaged_peak_never_passes_for_an_older_one(home, tmp_path, monkeypatch, caplog):
    """The run must not go on from a checkpoint whose peak is lost: it ends as if nothing had been damaged."""
    paths = interrupted(home, monkeypatch, iterations=8)
    saved = list_checkpoints(paths.attempt(1).checkpoints)
    peaks = [path for _, path in saved if is_peak(path)]
    assert peaks[-1] != saved[-1][1]
    (peaks[-1] / "tensors.safetensors").write_bytes(b"damaged")
    assert execute(home, paths.id) == "finished"
    assert "the peak checkpoint of step" in caplog.text
    shutil.rmtree(peaks[-1])  # `comparable` loads every checkpoint
    assert comparable(paths) == undisturbed(tmp_path, iterations=8)


def cut(path):
    file = path / "tensors.safetensors"
    os.truncate(file, file.stat().st_size // 2)


def flip(path):
    file = path / "tensors.safetensors"
    data = bytearray(file.read_bytes())
    data[-3] ^= 1
    file.write_bytes(data)


def folder_for_a_file(path):
    (path / "tensors.safetensors").unlink()
    (path / "tensors.safetensors").mkdir()


def file_for_a_folder(path):
    shutil.rmtree(path)
    path.write_text("")


def of_another_run(path):
    """Of the same trainer and step: its numbers would go on as if nothing had happened."""
    home = Home(path.parents[6])
    paths = make(home, seed=99)
    execute(home, paths.id)
    saved = list_checkpoints(paths.attempt(1).checkpoints)[-1][1]
    meta = json.loads((saved / "meta.json").read_text())
    shutil.rmtree(path)
    shutil.copytree(saved, path.with_name(f"step-{meta['step']:06d}"), dirs_exist_ok=True)


DAMAGES = {
    "cut": cut,
    "flip": flip,
    "empty tensors": lambda path: (path / "tensors.safetensors").write_bytes(b""),
    "empty meta": lambda path: (path / "meta.json").write_bytes(b""),
    "empty folder": lambda path: [file.unlink() for file in path.iterdir()],
    "folder for a file": folder_for_a_file,
    "file for a folder": file_for_a_folder,
    "of another run": of_another_run,
}


@pytest.mark.parametrize("every", [False, True], ids=["newest", "all"])
@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_checkpoint_never_changes_the_numbers(home, tmp_path, monkeypatch, kind, every):
    """The run goes on from an older checkpoint, or from the beginning, to the result of an undisturbed one."""
    paths = interrupted(home, monkeypatch, iterations=8)
    saved = [path for _, path in list_checkpoints(paths.attempt(1).checkpoints)]
    assert len(saved) > 1
    for path in saved if every else saved[-1:]:
        DAMAGES[kind](path)
    assert execute(home, paths.id) == "finished"
    for _, path in list_checkpoints(paths.attempt(1).checkpoints):  # `comparable` loads every checkpoint
        try:
            load_checkpoint(path)
        except CheckpointError:
            path.rename(paths.root / path.name)
    assert comparable(paths) == undisturbed(tmp_path, iterations=8)
