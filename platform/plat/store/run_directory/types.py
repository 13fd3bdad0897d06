"""Define the types of the values in the JSON files of a run directory, and check values against them.

A checksum does not prove that plat wrote a file: bundles come from other people. Keys without a type here may have any
value, because only their text is used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

LAST_SECOND = 253402300799  # of the year 9999, the last year of a Python date
_SURROGATE = re.compile("[\ud800-\udfff]")
MOST_ATTEMPTS = 999  # the names of attempt folders have three digits


class Type(NamedTuple):
    """A type: its name in words, and a predicate that is True for its values."""

    name: str
    holds: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_time(value: Any) -> bool:
    """Return True for seconds since 1970 in the range of a Python date: 0 to LAST_SECOND."""
    return is_number(value) and math.isfinite(value) and 0 <= value <= LAST_SECOND


def _is_code(value: Any) -> bool:
    """Return True for facts of the form of `plat.store.provenance.code_state.CodeState.facts`."""
    if not isinstance(value, dict) or not isinstance(value.get("versions") or {}, dict):
        return False
    plug_ins = value.get("plug_ins") or []
    return isinstance(plug_ins, list) and all(
        isinstance(plug_in, dict) and isinstance(plug_in.get("package"), str) for plug_in in plug_ins
    )


def _is_list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _is_mapping_to(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(holds, value.values()))


def _are_event_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        attempt.isdecimal() and is_integer(count) and count >= 0 for attempt, count in value.items()
    )


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_text(value: Any) -> bool:
    """Return True for text without lone surrogates, which cannot be encoded."""
    return isinstance(value, str) and (value.isascii() or not _SURROGATE.search(value))


def _is_writable(value: Any) -> bool:
    """Return True if all texts in a JSON value can be encoded."""
    if isinstance(value, dict):
        return all(_is_text(key) and _is_writable(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_writable, value))
    return not isinstance(value, str) or _is_text(value)


def _is_identity(value: Any) -> bool:
    """Return True for an identity of the form of `plat.spec.expansion.run.Run.identity`."""
    if not isinstance(value, dict) or not isinstance(value.get("trainer"), str):
        return False
    texts = _is_list_of(_is_text)
    pairs = _is_list_of(lambda pair: texts(pair) and len(pair) == 2)
    return pairs(value.get("plugins")) and texts(value.get("left_out"))


def is_attempt_number(value: Any) -> bool:
    return is_integer(value) and 1 <= value <= MOST_ATTEMPTS


def _or_nothing(type_: Type) -> Type:
    return Type(f"{type_.name} or null", lambda value: value is None or type_.holds(value))


TEXT = Type("a text", _is_text)
TEXTS = Type("a list of texts", _is_list_of(_is_text))
INTEGER = Type("an integer", is_integer)
NUMBER = Type("a number", is_number)
TIME = Type("a time in seconds since 1970", is_time)
MAPPING = Type("a JSON object", lambda value: isinstance(value, dict) and _is_writable(value))
PREPARATION = Type("a name and a title", lambda value: _is_list_of(_is_text)(value) and len(value) == 2)
RESOURCES = Type("numbers and texts by name", _is_mapping_to(lambda item: is_number(item) or _is_text(item)))
ATTEMPT = Type(f"the number of an attempt (1 to {MOST_ATTEMPTS})", is_attempt_number)

META = {
    "id": TEXT,
    "format": INTEGER,
    "files": Type("hashes by file name", _is_mapping_to(_is_text)),
    "name": TEXT,
    "trainer": TEXT,
    "trainer_version": _or_nothing(TEXT),
    "identity_scheme": INTEGER,
    "identity": Type("what the id was hashed from", _is_identity),
    "axes": MAPPING,
    "experiments": TEXTS,
    "studies": Type("the trials that ask for it, by study", _is_mapping_to(_is_list_of(_is_string))),
    "fingerprint": MAPPING,
    "paper": _or_nothing(TEXT),
    "scale": _or_nothing(TEXT),
    "iterations": _or_nothing(INTEGER),
    "headline": _or_nothing(TEXT),
    "metric": _or_nothing(TEXT),
    "prepare": _or_nothing(PREPARATION),
    "resources": RESOURCES,
    "config_sha256": TEXT,
    "code": _or_nothing(Type("what is recorded of the code", _is_code)),
    "plugin_code": Type("hashes of files by plug-in", _is_mapping_to(_is_mapping_to(_is_string))),
    "created": Type("a time", is_time),
}
ENDED = {
    "outcome": TEXT,
    "step": _or_nothing(INTEGER),
    "success": _or_nothing(NUMBER),
    "time": TIME,
    "wall": _or_nothing(NUMBER),
    "reason": _or_nothing(TEXT),
    "summary": _or_nothing(MAPPING),
    "usage": MAPPING,
}
RESULT = {
    **ENDED,
    "id": TEXT,
    "name": TEXT,
    "attempt": ATTEMPT,
    "attempts": Type("a list of attempt numbers", _is_list_of(is_attempt_number)),
    "events": Type("numbers of events by attempt", _are_event_counts),
    "iterations": _or_nothing(INTEGER),
    "measured": TEXT,
}
OUTCOME = {**ENDED, "run": TEXT, "events": _or_nothing(INTEGER), "error": _or_nothing(TEXT)}
ATTEMPT_META = {
    "run": TEXT,
    "restored_step": _or_nothing(INTEGER),
    "facts": _or_nothing(MAPPING),
    "host": _or_nothing(TEXT),
    "numerics": _or_nothing(MAPPING),
    "code_diff_sha256": _or_nothing(TEXT),
}


def wrong_type(values: Mapping[str, Any], types: Mapping[str, Type]) -> str:
    """Describe the first value that is not of its type; "" if there is none. Absent keys are accepted."""
    for key, type_ in types.items():
        if key in values and not type_.holds(values[key]):
            return f"its {key} is not {type_.name}"
    return ""
