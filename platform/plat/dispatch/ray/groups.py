"""Placement groups of tasks on several nodes: made with the task's actor, named like it, and removed with it.

Ray gives a group its nodes all at once or not at all, so two tasks never wait for each other's nodes. The group is
detached, because the command that asked for the task may end; the actor removes it at its own end, and whoever asks
Ray for names removes the groups of actors that could not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import Any

PREFIX = "plat-"  # of the names of submissions, and so of their actors and groups


def group_options(name: str, nodes: int, bundle: dict[str, float]) -> dict[str, Any]:
    """Make the group `name` of so many nodes, each with what the bundle names; the options of an actor on its first.

    A group of that name that is there already is used as it is.
    """
    from ray.util import get_placement_group, placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    try:
        group = get_placement_group(name)
    except ValueError:
        group = placement_group([bundle] * nodes, strategy="STRICT_SPREAD", name=name, lifetime="detached")
    return {"scheduling_strategy": PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)}


def remove_group(name: str) -> None:
    """Give a task's nodes back, and end what is left on them; nothing where the task has no group."""
    from ray.util import get_placement_group, remove_placement_group

    with contextlib.suppress(ValueError):
        remove_placement_group(get_placement_group(name))


def groups() -> set[str]:
    """The names of the groups of tasks, of all namespaces."""
    from ray.util import placement_group_table

    table = placement_group_table().values()
    return {group["name"] for group in table if group["state"] != "REMOVED" and group["name"].startswith(PREFIX)}


class OrphanedGroups:
    """Removes groups whose actor was missing twice in a row: once it may just not have been made yet."""

    def __init__(self) -> None:
        self._suspects: set[str] = set()

    def remove(self, before: Collection[str], actors: Collection[str]) -> None:
        """`before` are the groups that there were before the actors were listed."""
        orphans = set(before) - set(actors)
        for name in orphans & self._suspects:
            remove_group(name)
        self._suspects = orphans
