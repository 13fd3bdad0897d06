"""What a study of a search has come to, as `plat.search.summary` finds it and reports show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One trial.

    state       complete | pruned | failed | unfinished
    values      of the objectives, in their order; of a pruned trial the last one that was reported; () without any
    iterations  of training, of all its runs together
    reason      why it was pruned or failed, else ""
    """

    number: int
    state: str
    params: Mapping[str, Any]
    values: tuple[float, ...]
    iterations: int
    reason: str
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Winner:
    """A winning trial in one objective: its values in the runs on the seeds of the search, and in those on fresh seeds.

    Only runs that are done have a value.
    """

    trial: int
    objective: str
    maximize: bool
    searched: tuple[float, ...]
    fresh: tuple[float, ...]
    run_ids: tuple[str, ...]
