"""One key of a config: its declared type, the limits that its field sets, and the plugins that it may name."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_origin

from plat.errors import SpecError
from plat.suggest import mend
from plat.trainer.plugins import published

LIMITS = (  # key of a field's metadata, what violates it, and its words
    ("minimum", operator.lt, "at least"),
    ("maximum", operator.gt, "at most"),
    ("above", operator.le, "more than"),
    ("below", operator.ge, "less than"),
)
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", list: "a list"}


@dataclass(frozen=True)
class Leaf:
    """One key that holds a value: its declared type, the dataclass it belongs to and its field metadata."""

    key: str
    kind: Any
    owner: type
    metadata: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    def describe(self) -> str:
        """The declared type in words for a message, e.g. `a whole number or null`."""
        inner = [part for part in get_args(self.kind) if part is not type(None)]
        kind = inner[0] if len(inner) == 1 and get_origin(self.kind) not in (list, dict, tuple) else self.kind
        if isinstance(kind, type) and issubclass(kind, Enum):
            return f"one of: {', '.join(member.name for member in kind)}"
        if get_origin(kind) is list:
            kind = list
        text = _KINDS.get(kind, getattr(kind, "__name__", str(kind)))
        return f"{text} or null" if type(None) in get_args(self.kind) else text

    def choices(self) -> tuple[str, ...] | None:
        """The valid names: those that the field lists, or the plugins of its entry-point group; None for any value."""
        if "plugin" in self.metadata:
            return plugin_names(self.metadata["plugin"])
        return tuple(self.metadata["choices"]) if self.metadata.get("choices") else None

    def limits(self) -> str:
        """The range of a number in words, e.g. `at least 0, less than 1`; "" without limits."""
        return ", ".join(f"{words} {_limit(self.metadata[name])}" for name, _, words in LIMITS if name in self.metadata)


def check_limits(leaf: Leaf, value: Any) -> Any:
    """Choices, ranges and plugin names from the field's metadata; -0.0 becomes 0.0, NaN and infinity are refused."""
    if isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and not leaf.metadata.get("infinite")):
            spelling = "NaN" if math.isnan(value) else "infinity"
            raise SpecError(f"{leaf.key}: {spelling} is not a usable value", mend=f"give {leaf.describe()}")
        value = value + 0.0
    if not leaf.metadata or value is None:
        return value
    limits = leaf.metadata
    choices = leaf.choices()
    if choices is not None and value not in choices:
        what = f"{leaf.key}: unknown {limits.get('plugin', 'value').rpartition('.')[2].removesuffix('s')} {show(value)}"
        raise SpecError(what, mend=mend(value, choices, "one of"))
    if isinstance(value, (int, float)):
        for name, violates, words in LIMITS:
            if name in limits and violates(value, limits[name]):
                raise SpecError(
                    f"{leaf.key}: {show(value)} is out of range", mend=f"give {words} {_limit(limits[name])}"
                )
    return value


def _limit(limit: float) -> str:
    return f"{limit:,}" if isinstance(limit, int) else f"{limit:g}"


def plugin_names(group: str) -> tuple[str, ...]:
    """The names published under an entry-point group; imports none of them."""
    return tuple(published(group))


def show(value: Any) -> str:
    """A value as YAML spells it, cut to a readable length."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type where it has no message."""
    return (str(error) or type(error).__name__).splitlines()[0]
