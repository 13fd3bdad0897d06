"""Define the results of a study, which `plat.search.summary` computes and reports show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One trial."""

    number: int
    state: str  # complete | pruned | failed | unfinished
    params: Mapping[str, Any]
    # values of the objectives, in their order; of a pruned trial the last reported one; () if none
    values: tuple[float, ...]
    iterations: int  # training iterations of all its runs together
    reason: str  # why it was pruned or failed, else ""
    run_ids: tuple[str, ...]


@dataclass(frozen=True)
class Winner:
    """A winning trial in one objective, with its values in done runs."""

    trial: int
    objective: str
    maximize: bool
    searched: tuple[float, ...]  # values on the seeds of the search
    fresh: tuple[float, ...]  # values on fresh seeds
    run_ids: tuple[str, ...]
