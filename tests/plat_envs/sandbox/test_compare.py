"""The comparison of outputs and of values, which only the parent makes."""

from __future__ import annotations

import json

import pytest

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox.sandbox import same_output, same_value


@pytest.mark.parametrize(
    "output", [b"1 2\n3\n", b"1 2\n3", b"1 2  \n3\t\n\n\n", b"1 2\r\n3\r\n"], ids=["same", "open", "blanks", "CRLF"]
)
def test_ends_of_lines_do_not_matter(output):
    assert same_output(output, "1 2\n3\n")


@pytest.mark.parametrize(
    "output",
    [b"", b"1 2 3", b" 1 2\n3", b"1  2\n3", b"\n1 2\n3", b"1 2\n\n3", b"\xef\xbb\xbf1 2\n3", b"1 2\n3\xff", b"1 2\x0b3",
     b"x\r1 2\n3", b"1 2\n3\n\x00", b"1 2\n3.0", "1 2\n３".encode(), b"\x1b[0m1 2\n3"],
)  # fmt: skip
def test_everything_else_does(output):
    assert not same_output(output, "1 2\n3\n")


@pytest.mark.parametrize(
    ("output", "same"),
    [(b"x 1.0000001 2", True), (b"x 1.1 2", False), (b"x 1 2e0", True), (b"x nan 2", False), (b"x inf 2", False),
     (b"y 1 2", False), (b"x 1 2 3", False), (b"x 1_0 2", False), (b"x\n1 2", False), (b"x 1e999 2", False)],
)  # fmt: skip
def test_numbers_by_tolerance_where_the_problem_says_so(output, same):
    assert same_output(output, "x 1.0 2\n", tolerance=1e-6) is same
    assert not same_output(output, "x 1.0 2\n")


@pytest.mark.parametrize("expected", ["1" * 400, "-" + "1" * 400, "1e999"])
def test_a_number_that_no_float_holds_is_near_nothing(expected):
    assert not same_output(b"0", expected, 1e-6) and same_output(expected.encode(), expected, 1e-6)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("1", 1), ("1.0", 1), ("[1, [2]]", [1, [2]]), ('{"b": 1, "a": null}', {"a": None, "b": 1}),
     ('"\\u00e9"', "é"), ("-0.0", 0), (" [ ] \n", [])],
)  # fmt: skip
def test_equal_values(text, value):
    assert same_value(text.encode(), value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("true", 1), ("0", False), ("0", None), ("null", 0), ("[]", {}), ('""', None), ('"1"', 1), ("[1]", 1),
     ("NaN", 0), ("Infinity", 1), ("1e999", 1), ("1 1", 1), ("", None), ("[1,]", [1]), ('{"a": 1, "a": 2}', {"a": 2}),
     ("9" * 5000, 9), ("[" * 400 + "]" * 400, [[]]), ("[" * 100000, []), ("\ufeff1", 1), ("'a'", "a"), ("01", 1)],
)  # fmt: skip
def test_other_values(text, value):
    assert not same_value(text.encode(), value)


def test_bytes_that_are_no_text():
    assert not same_value(b"\xff", "\xff")


def test_values_by_tolerance():
    assert same_value(b"[1.0000001, true]", [1, True], tolerance=1e-6)
    assert not same_value(b"[1.0000001, 1]", [1, True], tolerance=1e-6)
    assert not same_value(b"1" + b"0" * 400, 1.0, tolerance=1e-6)
    assert same_value(json.dumps(2**64).encode(), 2**64, tolerance=1e-6)


@pytest.mark.parametrize("text", [b'\\"' * 4_000_000, b'"\\"' * 2_000_000, b"[]," * 2_000_000, b"1" * 8_000_000])
def test_a_flood_is_compared_at_once(text):
    """A pattern that looks back, or a parser, would take minutes."""
    assert not same_value(text, "short") and not same_value(text, ["x" * 100_000])
    assert not same_output(text + b"x", "1 2\n", tolerance=1e-6)
    assert not same_output(b"1 " + text + b"x", "1 2\n", tolerance=1e-6)


@pytest.mark.parametrize("expected", [float("nan"), {1, 2}, object()])
def test_an_expected_value_that_is_no_json_is_an_error(expected):
    with pytest.raises(BadEnvironment, match="no JSON"):
        same_value(b"1", expected)
