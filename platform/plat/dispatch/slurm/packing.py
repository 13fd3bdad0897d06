"""Runs into tasks, tasks into arrays: as few calls of the scheduler as the site allows, and tasks worth starting.

Runs that ask for the same resources go into one array. A task starts Python and imports torch and verl once for all of
its runs, so several short runs share a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.dispatch.slurm.profile import Profile
from plat.spec.schema import select
from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.runs import Run

WORTH_A_TASK = 600.0  # seconds of work that justify starting a task; shorter runs share one
MOST_IN_A_TASK = 32  # what one lost node may interrupt
MOST_ARRAYS = 3  # before there are more arrays, tasks are packed fuller


@dataclass(frozen=True)
class Chunk:
    """What one call of the scheduler submits: an array of tasks, each a list of runs, that ask for the same."""

    needed: Resources
    tasks: list[list[Run]]


def chunks(
    runs: Sequence[Run], profile: Profile, max_array_size: int, seconds: Callable[[Run], float | None]
) -> list[Chunk]:
    """All the runs, in their order. `seconds` says how long one is expected to take, None where that is not known."""
    classes: dict[Resources, list[Run]] = {}
    for run in runs:
        needed = profile.resources(run.resources, str(select(run.config, "model.name") or ""))
        classes.setdefault(needed, []).append(run)
    made = []
    for needed, members in classes.items():
        size = _runs_per_task(members, profile, max_array_size, seconds)
        tasks = [members[start : start + size] for start in range(0, len(members), size)]
        made += [Chunk(needed, tasks[i : i + max_array_size]) for i in range(0, len(tasks), max_array_size)]
    return made


def _runs_per_task(
    runs: Sequence[Run], profile: Profile, max_array_size: int, seconds: Callable[[Run], float | None]
) -> int:
    if profile.runs_per_task:
        return profile.runs_per_task
    expected = [length for run in runs if (length := seconds(run)) is not None]
    size = 1
    if expected:
        mean = max(1.0, sum(expected) / len(expected))
        size = min(MOST_IN_A_TASK, max(1, round(WORTH_A_TASK * profile.runs_at_once / mean)))
    return max(size, math.ceil(len(runs) / (MOST_ARRAYS * max_array_size)))
