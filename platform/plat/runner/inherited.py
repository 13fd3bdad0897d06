"""The environment that a process which does runs inherits."""

from __future__ import annotations

from collections.abc import Mapping

# PYTHONOPTIMIZE removes the docstrings that transformers builds classes from, and assertions.
DROPPED = ("PYTHONOPTIMIZE",)


def without_dropped(environment: Mapping[str, str]) -> dict[str, str]:
    """These variables without those under which no run works."""
    return {name: value for name, value in environment.items() if name not in DROPPED}
