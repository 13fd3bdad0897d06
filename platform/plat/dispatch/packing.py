"""Pack runs into the tasks of a scheduler: runs that request the same resources, several short ones in a task.

A task starts Python and imports torch once for all of its runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from plat.trainer.resources import Resources

if TYPE_CHECKING:
    from plat.spec.expansion.run import Run


@dataclass(frozen=True)
class Chunk:
    """The content of one submission: tasks with the same resources, each a list of runs."""

    needed: Resources
    tasks: list[list[Run]]


def chunks(
    runs: Sequence[Run], needed: Callable[[Run], Resources], size: Callable[[Sequence[Run]], int], most_tasks: int
) -> list[Chunk]:
    """Return all runs in chunks of at most `most_tasks` tasks; runs of the same resources keep their order.

    size  (runs with the same resources): the number of runs in a task
    """
    classes: dict[Resources, list[Run]] = {}
    for run in runs:
        classes.setdefault(needed(run), []).append(run)
    made = []
    for resources, members in classes.items():
        each = size(members)
        tasks = [members[start : start + each] for start in range(0, len(members), each)]
        made += [Chunk(resources, tasks[start : start + most_tasks]) for start in range(0, len(tasks), most_tasks)]
    return made


def runs_worth(runs: Sequence[Run], seconds: Callable[[Run], float | None], worth: float) -> int:
    """Return how many runs such as these take `worth` seconds together, at least 1; it may exceed len(runs).

    seconds  the expected seconds of a run, None if unknown. Only known ones count; if none is known, return 1
    """
    expected = [length for run in runs if (length := seconds(run)) is not None]
    if not expected:
        return 1
    return max(1, round(worth / max(1.0, sum(expected) / len(expected))))
