"""Files of others: pipes and devices are not opened, and no text takes long or ends the process."""

from __future__ import annotations

import os

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yaml_bombs import BOMB, MERGED

from plat.plain_files import (
    MAX_DEPTH,
    SHORT,
    NotRegular,
    is_special,
    open_regular,
    parse_json,
    parse_yaml,
    read_bytes,
    read_text,
)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "link to a pipe"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind):
    path = tmp_path / "x"
    if kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(tmp_path / "pipe" if "link" in kind else path)
        if "link" in kind:
            path.symlink_to(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError if kind == "folder" else NotRegular):
        open_regular(path)
    assert is_special(path) == (kind != "folder")


def test_a_file_is_read_up_to_a_limit(tmp_path):
    (tmp_path / "x").write_bytes(b"a\r\nb")
    assert read_bytes(tmp_path / "x", 4) == b"a\r\nb" and read_text(tmp_path / "x") == "a\nb"
    with pytest.raises(OSError, match="more than 3 bytes"):
        read_bytes(tmp_path / "x", 3)
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "y")
    assert not is_special(tmp_path / "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "expands to more than"),
        (MERGED, "expands to more than"),
        ("a: &a [*a]", "contains its own alias"),
        ("[" * 100_000, "nested too deeply"),
        ("- " * 100_000 + "x", "nested too deeply"),
        ("a: " + "{b: " * 50_000, "nested too deeply"),
        ("? " * SHORT, "nested too deeply"),
        ("a: &x " + "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested too deeply"),
        ("a: !!python/name:os.system", "not plain YAML"),
        ("{[1]: 2}: 3", "not plain YAML"),
        ("a: [", "not plain YAML"),
        ("a\0b", "not plain YAML"),
    ],
)
def test_yaml_that_stands_for_too_much_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_yaml(text)


def test_yaml_within_the_limits_is_read():
    assert parse_yaml("") is None
    assert parse_yaml("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}") == {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}
    deep = "[" * 100 + "]" * 100 + " " * SHORT
    assert parse_yaml(deep) is not None


@given(st.recursive(st.none() | st.integers() | st.text("ab&*é", max_size=4), lambda x: st.lists(x, max_size=3)))
def test_yaml_means_what_it_means_to_pyyaml(value):
    text = yaml.safe_dump([value, value])
    assert parse_yaml(text) == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[", "nonsense", b"\xff", ""])
def test_json_that_cannot_be_read_is_a_value_error(text):
    with pytest.raises(ValueError):
        parse_json(text)
    assert parse_json('{"a": [1]}') == {"a": [1]}
