"""The names that installed packages publish under an entry-point group, found once a process.

`importlib.metadata.entry_points` reads the metadata of every installed package each time, some 15 ms; a sweep asks for
its trainer once per run. The result is kept for as long as `sys.path` stays the same.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points


def published(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point, sorted by name; imports none of them. Do not change the result."""
    return _published(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _published(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    found = {point.name: point for point in _all(path).select(group=group)}
    return dict(sorted(found.items()))


@lru_cache(maxsize=4)
def _all(path: tuple[str, ...]):  # type: ignore[no-untyped-def]
    return entry_points()
