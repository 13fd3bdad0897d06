"""Describe one key of a config: its declared type, its limits, and the plug-ins that are valid for it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_origin

from plat.errors import SpecError
from plat.plugins.loading import published
from plat.suggest import suggest

LIMITS = (  # key of a field's metadata, what violates it, and its words
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("above", operator.le, "more than"),
    ("below", operator.ge, "less than"),
)
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list"}


@dataclass(frozen=True)
class Leaf:
    """A key that holds a value: its declared type, the dataclass that owns it and its field metadata."""

    key: str
    kind: Any
    owner: type
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    def describe(self) -> str:
        """Return the declared type in words for a message, e.g. `a whole number or null`."""
        inner = [part for part in get_args(self.kind) if part is not type(None)]
        kind = inner[0] if len(inner) == 1 and get_origin(self.kind) not in (list, dict, tuple) else self.kind
        if isinstance(kind, type) and issubclass(kind, Enum):
            return f"one of: {', '.join(member.name for member in kind)}"
        if get_origin(kind) is list:
            kind = list
        text = _KINDS.get(kind, getattr(kind, "__name__", str(kind)))
        return f"{text} or null" if type(None) in get_args(self.kind) else text

    def choices(self) -> tuple[str, ...] | None:
        """Return the valid names (the field's choices, or the plug-ins of its group), or None for any value."""
        if "plugin" in self.metadata:
            return tuple(published(self.metadata["plugin"]))
        return tuple(self.metadata["choices"]) if self.metadata.get("choices") else None

    def limits(self) -> str:
        """Return the range of a number in words, e.g. `at least 0, less than 1`; "" without limits."""
        return ", ".join(f"{words} {_limit(self.metadata[name])}" for name, _, words in LIMITS if name in self.metadata)


def check_limits(leaf: Leaf, value: Any) -> Any:
    """Return the value (0.0 for -0.0). Raises SpecError unless it fits the field's choices, limits and plug-ins.

    The error has no `where`. NaN is always refused, infinity unless the field allows it; None always passes.
    """
    if isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and not leaf.metadata.get("infinite")):
            spelling = "NaN" if math.isnan(value) else "infinity"
            raise SpecError(f"{leaf.key}: {spelling} is not a usable value", fix=f"give {leaf.describe()}")
        value = value + 0.0
    if not leaf.metadata or value is None:
        return value
    limits = leaf.metadata
    choices = leaf.choices()
    if choices is not None and value not in choices:
        what = f"{leaf.key}: unknown {limits.get('plugin', 'value').rpartition('.')[2].removesuffix('s')} {show(value)}"
        raise SpecError(what, fix=suggest(value, choices, "one of"))
    if isinstance(value, (int, float)):
        for name, violates, words in LIMITS:
            if name in limits and violates(value, limits[name]):
                fix = f"give {words} {_limit(limits[name])}"
                raise SpecError(f"{leaf.key}: {show(value)} is out of range", fix=fix)
    return value


def _limit(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def show(value: Any) -> str:
    """Return a value for a message, cut to 60 characters: null, true or false, else its `repr`."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type if it has no message."""
    return (str(error) or type(error).__name__).splitlines()[0]
