"""Check the types of the fields of a TrainerSpec, because a dataclass accepts any value.

The usual mistake is a forgotten comma: `operational_keys=("train.x")` is a text, whose letters would be taken for keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """The type of a field in words, and a function that tests a value."""

    words: str
    holds: Callable[[Any], bool]


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


_TEXT = Kind("a text", lambda value: isinstance(value, str) and bool(value) and value.isprintable())
_TEXTS = Kind(
    'a tuple of texts, e.g. ("train.micro_batch",)',
    lambda value: isinstance(value, tuple | list) and all(isinstance(item, str) for item in value),
)
_FUNCTION = Kind("a function", callable)


def _or_none(kind: Kind) -> Kind:
    return Kind(f"{kind.words} or None", lambda value: value is None or kind.holds(value))


FIELDS = {
    **dict.fromkeys(("name", "version"), _TEXT),
    **dict.fromkeys(("conf", "code"), _or_none(_TEXT)),
    **dict.fromkeys(("operational_keys", "preload", "metrics", "cost_keys"), _TEXTS),
    **dict.fromkeys(("load", "validate", "resources", "fingerprint", "idle_keys", "iterations"), _FUNCTION),
    **dict.fromkeys(
        (
            "prepare",
            "load_prepare",
            "load_evaluate",
            "less_memory",
            "load_check",
            "check_machine",
            "disk_bytes",
            "needs",
        ),
        _or_none(_FUNCTION),
    ),
    "source_files": _or_none(_FUNCTION),
    "config_type": Kind("a dataclass", lambda value: isinstance(value, type)),
    "reuses_process": Kind("True or False", lambda value: isinstance(value, bool)),
    "headline": Kind("a text or a function", lambda value: _TEXT.holds(value) or callable(value)),
    "legacy": Kind("a dict of keys and values", lambda value: isinstance(value, Mapping)),
    "stall_after": Kind("a number of seconds", _is_time),
}


def wrong_field(spec: Any) -> str:
    """Return the first field with a wrong value, in words; "" if there is none."""
    for name, kind in FIELDS.items():
        value = getattr(spec, name)
        if not kind.holds(value):
            return f"{name} is {value!r:.60}, not {kind.words}"
    return ""
