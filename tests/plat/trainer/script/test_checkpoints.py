"""Snapshots of what a script writes into PLAT_CHECKPOINT_DIR."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from plat.trainer.api import State
from plat.trainer.script import checkpoints
from plat.trainer.script.checkpoints import CheckpointFolder


class Saves:
    """A RunIO that keeps snapshots in a folder."""

    def __init__(self, root: Path) -> None:
        self.files = root / "files"
        self.files.mkdir(exist_ok=True)
        self.root, self.steps = root, list[int]()

    def restore(self) -> tuple[int, State] | None:
        return (self.steps[-1], State({}, files=self.root / str(self.steps[-1]))) if self.steps else None

    def save(self, step: int, state: State, *, peak: bool = False, write_files: Any = None) -> None:
        (self.root / str(step)).mkdir()
        try:
            write_files(self.root / str(step))
        except BaseException:
            shutil.rmtree(self.root / str(step))
            raise
        self.steps.append(step)


def test_the_newest_snapshot_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SETTLED", 0.05)
    io: Any = Saves(tmp_path)
    folder = tmp_path / "files" / "checkpoints"
    kept = CheckpointFolder(folder, io)
    assert kept.restored is None and kept.written_at() is None
    (folder / "deep").mkdir()
    (folder / "deep" / "a").write_text("1")
    before = time.time()
    written = kept.written_at()
    assert written is not None and abs(written - before) < 5 and not kept.has_settled()
    time.sleep(0.1)
    assert kept.written_at() == written and kept.has_settled()
    kept.keep(3)
    assert kept.written_at() is None
    (folder / "deep" / "a").write_text("torn")
    (folder / "b").write_text("2")
    again = CheckpointFolder(folder, io)
    assert again.restored == 3 and again.written_at() is None
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["a"]
    assert (folder / "deep" / "a").read_text() == "1"


def test_files_that_change_all_the_time_do_not_hold_metrics_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "SETTLED", 0.2)
    monkeypatch.setattr(checkpoints, "LONGEST", 0.3)
    kept = CheckpointFolder(tmp_path / "files" / "checkpoints", Saves(tmp_path))  # type: ignore[arg-type]
    seen = []
    for step in range(12):
        (tmp_path / "files" / "checkpoints" / "a").write_text("x" * step)
        kept.written_at()
        seen.append(kept.is_restless())
        time.sleep(0.05)
    assert not seen[0] and seen[-1]
    time.sleep(0.3)
    (tmp_path / "files" / "checkpoints" / "a").write_text("new")
    kept.written_at()
    assert not kept.is_restless()


def test_files_that_change_while_they_are_copied_are_no_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    io: Any = Saves(tmp_path)
    folder = tmp_path / "files" / "checkpoints"
    kept, copy = CheckpointFolder(folder, io), shutil.copy2
    (folder / "a").write_text("1")
    (folder / "b").write_text("2")
    os.mkfifo(folder / "pipe")

    def copied(change: Any) -> None:
        monkeypatch.setattr(shutil, "copy2", lambda *args, **options: (change(), copy(*args, **options))[1])
        monkeypatch.setattr(shutil.copytree, "__defaults__", (False, None, shutil.copy2, False, False))
        kept.written_at()
        kept.keep(len(io.steps) + 1)

    copied(lambda: (folder / "b").unlink(missing_ok=True))
    assert io.steps == [] and kept.written_at() is not None
    copied(lambda: (folder / "a").write_text("11" * (1 + (folder / "a").stat().st_size)))
    assert io.steps == [] and kept.written_at() is not None
    copied(lambda: None)
    assert io.steps == [1] and kept.written_at() is None and [path.name for path in (tmp_path / "1").iterdir()] == ["a"]


def test_a_single_closed_file_that_changes_all_the_time_takes_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LONGEST", -1.0)
    io: Any = Saves(tmp_path)
    folder = tmp_path / "files" / "checkpoints"
    kept, file = CheckpointFolder(folder, io), folder / "a"

    def looks(text: str) -> bool:
        file.write_text(text)
        kept.written_at()
        return kept.takes_turn()

    assert looks("1")
    file.write_text("newer than the look")
    kept.keep(1)
    assert io.steps == []  # the metrics of the newer file are not logged yet
    kept.written_at()
    kept.keep(2)
    assert io.steps == [2]
    kept.written_at()
    assert not kept.takes_turn()  # nothing is new
    with file.open("a"):
        kept.written_at()
        assert not looks("open")
    (folder / "b").write_text("")
    assert not looks("two files")
