"""Check values of an experiment file against a plug-in's type annotations, with messages in plain words."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from plat.errors import SpecError

_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def type_of(function: Callable[..., Any], annotation: Any) -> Any:
    """Return the type of an annotation; Any where it cannot be evaluated."""
    if not isinstance(annotation, str):
        return annotation
    try:  # one by one: typing.get_type_hints fails for all annotations of a function where it fails for one
        return eval(annotation, inspect.unwrap(function).__globals__)
    except Exception:
        return Any


def check_type(name: str, value: Any, hint: Any) -> None:
    """Raise SpecError unless an argument's value, as read from YAML, is of this type."""
    if not fits(value, hint):
        raise SpecError(f"{name}: {value!r} is not {described(hint)}", fix=f"give {described(hint)}")


def fits(value: Any, hint: Any) -> bool:
    """Return True if a value is of this type, or YAML has no counterpart of it; inf, nan and bools are not numbers."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in inner)
    if origin is Literal:
        return value in inner
    if hint in (None, NoneType):
        return value is None
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    if hint in (str, bool):
        return isinstance(value, hint)
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return isinstance(value, dict) and (len(inner) != 2 or all(fits(item, inner[1]) for item in value.values()))
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return isinstance(value, list) and (not inner or all(fits(item, inner[0]) for item in value))
    return True


def described(hint: Any) -> str:
    """Return the type in plain words, e.g. `text or a list of text`."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(described(part) for part in inner if part is not NoneType)
    if origin is Literal:
        return "one of: " + ", ".join(map(str, inner))
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return "a mapping" + (f" to {described(inner[1])}" if len(inner) == 2 else "")
    if isinstance(kind, type) and issubclass(kind, Sequence):
        return "a list" + (f" of {described(inner[0])}" if inner else "")
    return str(getattr(hint, "__name__", hint))
