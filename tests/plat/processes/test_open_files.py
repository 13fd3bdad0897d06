"""Which files are open."""

from __future__ import annotations

from pathlib import Path

from plat.processes.locks import is_open


def test_a_file_is_open_until_it_is_closed_also_under_another_name(tmp_path: Path) -> None:
    path, link = tmp_path / "file", tmp_path / "link"
    link.symlink_to(path)
    assert not is_open(str(path))
    with path.open("w"):
        assert is_open(str(path)) and is_open(str(link))
    assert not is_open(str(path))
