"""Convert plain scalars under YAML 1.2's core schema: `on` and `no` are text, `1e-3` is a number."""

from __future__ import annotations

import re
from typing import Any

from plat.errors import SpecError

_NULL = {"", "~", "null", "Null", "NULL"}
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def option_scalar(text: str, where: str) -> Any:
    """Return the scalar of an option on the command line; SpecError at `where` for a number of thousands of digits."""
    try:
        return scalar(text)
    except ValueError as error:
        raise SpecError("a whole number with too many digits", where=where, fix="give fewer digits") from error


def scalar(text: str) -> Any:
    """Return the None, bool, int, float or str that a plain scalar means. ValueError for thousands of digits."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    if special:
        return float("nan") if special[3] else float(f"{special[1]}inf")
    return text
