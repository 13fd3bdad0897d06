"""YAML: types of scalars, places of values, and every way a file can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.characters import LARGEST, forbidden_character
from plat.errors import SpecError
from plat.spec.reading.yaml_reader import MAX_BYTES, parse, read
from plat.spec.reading.yaml_scalar import scalar

FILE = Path("f.yaml")


def where_refused(text: str) -> tuple[str, str]:
    with pytest.raises(SpecError) as caught:
        parse(text, FILE)
    assert caught.value.fix
    return caught.value.what, str(caught.value.where)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("off", "off"),
        ("no", "no"),
        ("yes", "yes"),
        ("y", "y"),
        ("none", "none"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("1e-3", 1e-3),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("-3", -3),
        ("010", 10),
        ("0x10", 16),
        ("0o10", 8),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
        (".inf", float("inf")),
        ("-.inf", float("-inf")),
        ("e5", "e5"),
        ("qwen2.5-3b", "qwen2.5-3b"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    read_value = scalar(text)
    assert read_value == value and type(read_value) is type(value)


def test_quoted_scalars_are_text() -> None:
    assert parse("a: '1'\nb: \"true\"\nc: !!str 5\nd: |\n  7\n", FILE).data == {
        "a": "1",
        "b": "true",
        "c": "5",
        "d": "7\n",
    }


def test_every_value_and_key_has_its_place() -> None:
    document = parse("title: x\nmatrix:\n  seed: [0, 1]\n  filter:\n    - none\n", FILE)
    assert document.where("matrix", "seed", 1) == "f.yaml:3:13"
    assert document.where_key("matrix", "seed") == "f.yaml:3:3"
    assert document.where("matrix", "filter", 0) == "f.yaml:5:7"
    assert document.where("matrix", "nowhere") == "f.yaml:3:3", "the nearest thing around it"
    assert document.where() == "f.yaml:1:1"


def test_aliases_and_merge_keys() -> None:
    text = "base: &b {lr: 1, seed: 2}\nother: *b\nmerged: {<<: *b, lr: 3}\nboth: {<<: [{a: 1}, {a: 2, b: 2}]}\n"
    data = parse(text, FILE).data
    assert data["other"] == {"lr": 1, "seed": 2}
    assert data["merged"] == {"lr": 3, "seed": 2}
    assert data["both"] == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "what", "where"),
    [
        ("a: 1\nb: 2\na: 3", "given twice", "f.yaml:3:1"),
        ("x:\n  a: 1\n  'a': 2", "given twice", "f.yaml:3:3"),
        ("a: &x [1, *x]", "its own alias", "f.yaml:1:4"),
        ("a: &x {b: *x}", "its own alias", "f.yaml:1:4"),
        ("a: &x {<<: *x}", "never end", "f.yaml:1:4"),
        ("a: *nowhere", "undefined alias", "f.yaml:1:4"),
        ("a:\n\t- b", "'\\t'", "f.yaml:2:1"),
        ("", "empty", "f.yaml:1:1"),
        ("# only a comment\n", "empty", "f.yaml:1:1"),
        ("a: 1\n---\nb: 2", "another document", "f.yaml:2:1"),
        ("a: !!python/object:os.system x", "tag", "f.yaml:1:4"),
        ("a: !mine [1]", "tag", "f.yaml:1:4"),
        ("? [a]\n: b", "plain text", "f.yaml:1:3"),
        ("<<: 3", "needs a mapping", "f.yaml:1:5"),
        ("a: [1", "expected", "f.yaml:1:6"),
        ("a: \x07", "U+0007", "f.yaml:1:4"),
        ("a: " + "9" * 5000, "too many digits", "f.yaml:1:4"),
    ],
)
def test_malformed_files(text: str, what: str, where: str) -> None:
    message, place = where_refused(text)
    assert what in message and place == where


def test_deep_and_exploding_files_end_soon() -> None:
    assert "deep" in where_refused("[" * 5000)[0]
    assert "deep" in where_refused("a: " + "[" * 60 + "]" * 60)[0]
    bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n"
    bomb += "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
    assert "100,000" in where_refused(bomb)[0]
    merges = "m0: &m0 {a: 1}\n" + "".join(
        f"m{n}: &m{n} {{<<: [{','.join([f'*m{n - 1}'] * 9)}]}}\n" for n in range(1, 12)
    )
    assert where_refused(merges)[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "table4.yaml").write_text("title: x")
    (tmp_path / "latin.yaml").write_bytes(b"title: x\nsource: \xe9t\xe9\n")
    (tmp_path / "big.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "bom.yaml").write_bytes("﻿title: x".encode())
    for name, what in {
        "tabel4.yaml": "no such file",
        "no/such.yaml": "no such file",
        ".": "directory",
        "latin.yaml": "UTF-8",
        "big.yaml": "1 MiB",
        "a\0b": "cannot read",
    }.items():
        with pytest.raises(SpecError) as caught:
            read(tmp_path / name)
        assert what in caught.value.what and caught.value.where
    assert read(tmp_path / "bom.yaml").data == {"title": "x"}
    with pytest.raises(SpecError, match="no such") as caught:
        read(tmp_path / "tabel4.yaml")
    assert "table4.yaml" in str(caught.value.fix)
    with pytest.raises(SpecError) as caught:
        read(tmp_path / "latin.yaml")
    assert str(caught.value.where).endswith("latin.yaml:2:9")


def _means_the_same_to_both(text: str) -> bool:
    """Not so of `1e3`, `0o7` and `08`: numbers here, and words to PyYAML, which writes them without quotes."""
    tag = yaml.SafeLoader("").resolve(yaml.ScalarNode, text, (True, False))
    return scalar(text) == text or not str(tag).endswith(":str")


_accepted = st.text(max_size=8).filter(lambda text: forbidden_character(text) is None and _means_the_same_to_both(text))
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), LARGEST) | st.floats(allow_nan=False) | _accepted,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_accepted, inner, max_size=3),
    max_leaves=8,
)


@given(_plain.filter(lambda value: value is not None))
@settings(max_examples=80, deadline=None)
def test_what_yaml_writes_is_read_back(value: object) -> None:
    assert parse(yaml.safe_dump(value), FILE).data == value


@given(st.text(max_size=60))
@settings(max_examples=150, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text, FILE)
    except SpecError as error:
        assert error.where and error.fix
