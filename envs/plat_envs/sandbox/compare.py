"""Compare what a program wrote with what was expected. Only the parent does this, on bytes that it read itself."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from plat_envs.environment_errors import BadEnvironment

NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", flags=re.ASCII)
LONGEST_NUMBER = 4000  # digits
# An equal value can be longer by white space, or by the digits of a float, but is not a flood that has to be parsed.
LONGER, ROOM = 16, 1024


def same_output(output: bytes, expected: str, tolerance: float | None = None) -> bool:
    """Return True if the lines agree, without white space at their ends and without empty lines at the end.

    With a tolerance, words that are plain decimal numbers may differ by that share, or by that much below 1.
    """
    try:
        ours, theirs = _lines(output.decode("utf-8")), _lines(expected)
    except UnicodeDecodeError:
        return False
    if tolerance is None or ours == theirs:
        return ours == theirs
    if len(ours) != len(theirs):
        return False
    return all(_near_words(ours[i].split(), theirs[i].split(), tolerance) for i in range(len(ours)))


def _lines(text: str) -> list[str]:
    lines = [line.rstrip(" \t\r") for line in text.split("\n")]  # not splitlines: other characters end no line
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _near_words(ours: list[str], theirs: list[str], tolerance: float) -> bool:
    return len(ours) == len(theirs) and all(
        one == other or (_is_number(one) and _is_number(other) and _near(float(one), float(other), tolerance))
        for one, other in zip(ours, theirs, strict=True)
    )


def _is_number(word: str) -> bool:
    return len(word) < LONGEST_NUMBER and NUMBER.fullmatch(word) is not None


def _near(one: float, other: float, tolerance: float) -> bool:
    return math.isfinite(one) and math.isfinite(other) and abs(one - other) <= tolerance * max(1.0, abs(other))


def same_value(output: bytes, expected: Any, tolerance: float | None = None) -> bool:
    """Return True if the output is one JSON document that equals the expected value; True is not 1.

    Raises BadEnvironment if the expected value is no value of JSON.
    """
    try:
        text = json.dumps(expected, allow_nan=False).encode()
        wanted = parse(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise BadEnvironment(f"an expected value is no JSON: {error}", fix="mend the problem's tests") from error
    if len(output) > LONGER * len(text) + ROOM:
        return False
    try:
        return _equal(parse(output), wanted, tolerance)
    except (ValueError, RecursionError):
        return False


def parse(text: bytes) -> Any:
    """Return the value of a JSON document.

    Raises ValueError for NaN, infinities, long numbers and twice the same key, and RecursionError for a deep value.
    """
    options: dict[str, Any] = {"parse_constant": _refuse, "parse_int": _integer, "parse_float": _float}
    return json.loads(text.decode("utf-8"), object_pairs_hook=_object, **options)


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _integer(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise ValueError("too many digits")
    return int(text)


def _float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("too large a number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key comes twice")
    return dict(pairs)


def _equal(one: Any, other: Any, tolerance: float | None) -> bool:
    """Compare values that `parse` made. A whole number equals a float of the same value, but a bool equals neither."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        if one == other or tolerance is None:
            return one == other
        try:
            return _near(float(one), float(other), tolerance)
        except OverflowError:
            return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(a, b, tolerance) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key], tolerance) for key in one)
    return type(one) is type(other) and bool(one == other)
