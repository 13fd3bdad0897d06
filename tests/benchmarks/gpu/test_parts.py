"""Files go into parts and come out whole; what is missing, damaged or of another pack is said and not taken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parts import LIST, Store, write_parts

SIZES = {"a.whl": 700, "b.whl": 2500, "c.whl": 300}


def files_of(folder: Path, sizes: dict[str, int]) -> list[Path]:
    folder.mkdir()
    for number, (name, size) in enumerate(sizes.items()):
        (folder / name).write_bytes(bytes((number + at) % 251 for at in range(size)))
    return [folder / name for name in sizes]


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    return write_parts(files_of(tmp_path / "wheels", SIZES), tmp_path / "out", 1000, "3.12")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(1, 3000), min_size=1, max_size=5), limit=st.integers(200, 2000))
def test_files_come_out_whole_and_no_part_is_too_large(tmp_path_factory, sizes, limit):
    folder = tmp_path_factory.mktemp("parts")
    files = files_of(folder / "wheels", {f"{number}.whl": size for number, size in enumerate(sizes)})
    parts = write_parts(files, folder / "out", limit, "3.12")
    store = Store(folder / "store")
    for part in reversed(parts):  # in any order
        assert sum(path.stat().st_size for path in part.iterdir() if path.name != LIST) <= limit
        assert store.take(part) == []
    whole = {path.name: path.read_bytes() for path in store.files()}
    assert whole == {path.name: path.read_bytes() for path in files}
    assert store.missing() == []


def test_what_has_not_come_is_known(parts, tmp_path):
    store = Store(tmp_path / "store")
    assert len(parts) == 4
    store.take(parts[0])
    assert [path.name for path in store.files()] == ["a.whl"]
    assert store.missing() == [2, 3, 4]
    again = Store(tmp_path / "store")  # in a later call, without the first part
    for part in parts[1:]:
        again.take(part)
    assert [path.name for path in again.files()] == list(SIZES)


def test_a_damaged_piece_is_named_and_not_taken(parts, tmp_path):
    piece = parts[1] / "b.whl.2"
    sound = piece.read_bytes()
    piece.write_bytes(sound[:-1] + b"x")
    store = Store(tmp_path / "store")
    (problem,) = store.take(parts[1])
    assert str(piece) in problem and "send part 2 again" in problem
    assert 2 in store.missing()
    piece.write_bytes(sound)
    assert store.take(parts[1]) == []


def test_parts_of_two_packs_are_not_mixed(parts, tmp_path):
    others = write_parts(files_of(tmp_path / "others", {"a.whl": 701}), tmp_path / "out2", 1000, "3.12")
    store = Store(tmp_path / "store")
    store.take(parts[0])
    (problem,) = store.take(others[0])
    assert "of another pack" in problem
    assert [path.name for path in store.files()] == ["a.whl"]


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"files": 3, "python": "3.12", "parts": 1}'])
def test_a_folder_that_is_no_part_is_named(parts, tmp_path, text):
    (parts[0] / LIST).unlink()
    if text is not None:
        (parts[0] / LIST).write_text(text)
    store = Store(tmp_path / "store")
    (problem,) = store.take(parts[0])
    assert str(parts[0]) in problem and store.files() == []


def test_a_list_that_names_a_path_outside_is_refused(parts, tmp_path):
    listed = json.loads((parts[0] / LIST).read_text())
    listed["files"][0]["name"] = "../outside.whl"
    (parts[0] / LIST).write_text(json.dumps(listed))
    store = Store(tmp_path / "store")
    assert store.take(parts[0]) and store.files() == []
    shutil.rmtree(parts[0])
