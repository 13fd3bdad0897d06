"""Hashes of large files are remembered as long as the files stay as they are."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.trainer.script import named_files
from plat.trainer.script.named_files import file_hash


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were read, while every file counts as large and old."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(named_files, "LARGE", 1)
    monkeypatch.setattr(named_files, "YOUNG", -1.0)
    read, digest = list[Path](), named_files._digest
    monkeypatch.setattr(named_files, "_digest", lambda path: (read.append(path), digest(path))[1])
    return read


def expected(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[: named_files.DIGITS]


CHANGES: dict[str, Callable[[Path], object]] = {
    "longer": lambda path: path.write_text("one more"),
    "same size": lambda path: path.write_text("two"),
    "same time": lambda path: (ns := path.stat().st_mtime_ns, path.write_text("two"), os.utime(path, ns=(ns, ns))),
    "replaced": lambda path: ((path.parent / "new").write_text("two"), os.replace(path.parent / "new", path)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_unchanged_file_is_read_once_and_a_changed_one_again(reads: list[Path], tmp_path: Path, change: str) -> None:
    path = tmp_path / "data"
    path.write_text("one")
    assert [file_hash(path) for _ in range(3)] == [expected(path)] * 3 and reads == [path]
    CHANGES[change](path)
    assert file_hash(path) == expected(path) and len(reads) == 2


def test_a_damaged_or_a_readonly_cache_does_no_harm(reads: list[Path], tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("one")
    file_hash(path)
    (kept,) = (tmp_path / "cache").rglob("*.json")
    for damage in ("", "[]", "{", json.dumps({"state": json.loads(kept.read_text())["state"], "hash": 7})):
        kept.write_text(damage)
        assert file_hash(path) == expected(path)
    assert len(reads) == 5
    kept.unlink()
    kept.parent.rmdir()
    kept.parent.write_text("in the way")
    assert file_hash(path) == expected(path)


def test_a_file_that_has_just_changed_is_not_remembered(
    reads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "YOUNG", 60.0)
    (tmp_path / "data").write_text("one")
    assert file_hash(tmp_path / "data") == file_hash(tmp_path / "data") and len(reads) == 2
