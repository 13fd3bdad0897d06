"""Command-line overrides in Hydra's grammar."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.errors import SpecError
from plat.spec.reading import overrides
from plat.spec.reading.overrides import PLAIN, axis_text, parse_overrides


def values(*texts: str) -> dict[str, Any]:
    return {assignment.key: assignment.value for assignment in parse_overrides(texts).assignments}


def axes(*texts: str) -> dict[str, list[Any]]:
    return {name: values for name, (values, _) in parse_overrides(texts).axes.items()}


def test_values_are_typed_as_hydra_types_them() -> None:
    parsed = values("a=1", "b=1e-3", "c=text", "d='two words'", "e=null", "f=true", "g=[1,x]", "h={k: 1}", "i=on", "j=")
    assert parsed == {
        "a": 1,
        "b": 1e-3,
        "c": "text",
        "d": "two words",
        "e": None,
        "f": True,
        "g": [1, "x"],
        "h": {"k": 1},
        "i": "on",
        "j": "",
    }


def test_the_last_override_of_a_key_wins() -> None:
    assert values("a=1", "b=2", "a=3") == {"a": 3, "b": 2}
    assert values("+a=1", "++b.c=2") == {"a": 1, "b.c": 2}, "Hydra's prefixes make no difference"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("matrix.seed=range(5)", [0, 1, 2, 3, 4]),
        ("matrix.seed=range(2,8,3)", [2, 5]),
        ("matrix.seed=range(3,0,-1)", [3, 2, 1]),
        ("matrix.seed=range(0,1,0.25)", [0.0, 0.25, 0.5, 0.75]),
        ("matrix.seed=[1,2]", [1, 2]),
        ("matrix.seed=1,2", [1, 2]),
        ("matrix.seed=choice(1,2)", [1, 2]),
        ("matrix.seed=7", [7]),
        ("matrix.seed='a b',c", ["a b", "c"]),
        ("matrix.seed=[]", []),
    ],
)
def test_axes(text: str, expected: list[Any]) -> None:
    assert axes(text) == {"seed": expected}


def test_axes_written_as_text_in_a_file() -> None:
    assert axis_text("seed", "range(3)", "f.yaml:1:1") == [0, 1, 2]
    assert axis_text("task", "sokoban,frozenlake", "f.yaml:1:1") == ["sokoban", "frozenlake"]


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "~a",
        "~a=1",
        "a@b=1",
        "a=[",
        "a={",
        "a=f(x)",
        "=",
        "matrix.x=range(1,2,0)",
        "matrix.x=range(1000000000)",
        "matrix.x=interval(0,1)",
        "matrix.x=glob(*)",
        "a='",
        "a=" + "[" * 5000,
        "a=\0",
        "a b=1",
    ],
)
def test_refused_with_the_override_named(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_overrides([text])
    assert str(caught.value.where).startswith("command line: ") and caught.value.fix
    assert "\n" not in caught.value.what


@given(st.text(max_size=30))
@settings(max_examples=150, deadline=None)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_overrides([text])
    except SpecError as error:
        assert error.where and error.fix


@given(st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=5, unique=True))
@settings(max_examples=30, deadline=None)
def test_spellings_of_an_axis_agree(numbers: list[int]) -> None:
    text = ",".join(map(str, numbers))
    assert axes(f"matrix.seed=[{text}]") == {"seed": numbers}
    assert axes(f"matrix.seed={text}") == {"seed": numbers}


@settings(max_examples=300, deadline=None)
@given(
    st.from_regex(PLAIN, fullmatch=True)
    | st.from_regex(r"a=-?[0-9._]{1,6}|a=(?i:true|null|nan|inf|none)", fullmatch=True)
)
def test_plain_spellings_are_read_as_hydra_reads_them(text: str) -> None:
    plain = overrides.parse_plain(text)
    if plain is None:  # left to Hydra
        return
    key, value = overrides._parse_with_hydra(text, "here")
    assert plain[0] == key
    if isinstance(plain[1], range):
        assert overrides.is_sweep(value) and overrides.is_sweep(plain[1])
        assert (value.start or 0, value.stop) == (plain[1].start, plain[1].stop)
    else:
        assert value == plain[1] and type(value) is type(plain[1])
