"""A stamp of a file changes with every change of the file; only settled ones are remembered."""

from __future__ import annotations

import os
import shutil

from plat.store.index.remembered import SETTLED, is_settled, stamp, stamps


def test_a_stamp_changes_with_every_change(tmp_path):
    file = tmp_path / "file"
    assert stamp(file) is None
    file.write_text("a")
    first = stamp(file)
    os.utime(file, ns=(0, 0))
    second = stamp(file)
    shutil.copy2(file, tmp_path / "copy")
    (tmp_path / "copy").rename(file)
    assert len({first, second, stamp(file)}) == 3


def test_only_settled_stamps_are_remembered(tmp_path):
    file = tmp_path / "file"
    file.write_text("a")
    changed = file.stat().st_ctime
    assert not is_settled(stamp(file), changed + 0.5 * SETTLED) and is_settled(stamp(file), changed + 2 * SETTLED)


def test_many_stamps_are_those_of_each_file_on_slow_file_systems_too(tmp_path, monkeypatch):
    from plat.store.index import remembered as module

    for number in range(0, 500, 2):
        (tmp_path / str(number)).write_text("x" * number)
    paths = [str(tmp_path / str(number)) for number in range(500)]
    expected = [stamp(path) for path in paths]
    assert stamps(paths) == expected and stamps([]) == []
    monkeypatch.setattr(module, "SLOW", 0.0)
    assert stamps(paths) == expected
