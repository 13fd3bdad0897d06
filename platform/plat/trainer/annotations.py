"""Test values against the annotations of `plat.trainer.api.Trainer`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import Any, get_args, get_origin


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value has the type of an annotation.

    A text has one line, a whole number is not negative, another number is finite and above 0, and JSON can hold a dict.
    """
    kind, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind is UnionType:
        return any(fits(value, part) for part in parts)
    if hint is str:
        return isinstance(value, str) and bool(value) and value.isprintable()
    if hint in (int, float):
        is_number = isinstance(value, int | hint) and not isinstance(value, bool)
        return is_number and 0 <= value < math.inf and (hint is int or value > 0)
    if kind is dict:
        return isinstance(value, dict) and _is_json(value)
    if kind is Mapping:
        return isinstance(value, Mapping) and _all(value, parts[0]) and _all(value.values(), parts[1])
    if kind in (tuple, Sequence):
        is_pair = kind is tuple and ... not in parts
        return isinstance(value, list | tuple) and _all(value, parts[0]) and (not is_pair or len(value) == len(parts))
    return isinstance(value, hint)


def _all(values: Iterable[Any], hint: Any) -> bool:
    return all(isinstance(value, str) if hint is str else fits(value, hint) for value in values)


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    return True
