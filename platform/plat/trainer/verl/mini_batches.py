"""How the kept trajectories are shared out among the optimiser steps of an iteration, and what fills them up."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mini_batches(
    trajectories: int, updates: int, processes: int, rng: np.random.Generator
) -> tuple[list[NDArray[np.int64]], int]:
    """The numbers of the rows of each mini-batch, and how many rows of padding there are in all.

    The trajectories are shuffled and split as evenly as possible, as in the embedded trainer: a mini-batch holds what
    the filter kept and no more. Rows are numbered from 0; those from `trajectories` on are padding, which makes the
    size of each mini-batch a multiple of the number of processes. More updates than trajectories: as many as those.
    """
    batches, filled = [], trajectories
    for part in np.array_split(rng.permutation(trajectories), updates):
        if len(part):
            padding = -len(part) % processes
            batches.append(np.concatenate([np.sort(part), np.arange(filled, filled + padding)]).astype(np.int64))
            filled += padding
    return batches, filled - trajectories
