"""Fields of a trainer's config: choices and ranges, which `plat.spec` checks before anything runs."""

from __future__ import annotations

from dataclasses import field
from typing import Any


def choice(default: str, *others: str) -> Any:
    """Return a dataclass field with these valid names as metadata. Only `plat.spec` checks them, not the dataclass."""
    return field(default=default, metadata={"choices": (default, *others)})


def number(
    default: float,
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """Return a dataclass field whose metadata has inclusive (minimum, maximum) or exclusive (above, below) limits."""
    limits = {"minimum": minimum, "maximum": maximum, "above": above, "below": below}
    return field(default=default, metadata={name: limit for name, limit in limits.items() if limit is not None})
