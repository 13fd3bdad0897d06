"""How the kept trajectories are shared out among the optimiser steps of an iteration, and what fills them up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class MiniBatch(NamedTuple):
    """sequences: the numbers of its rows in TransferQueue, padding included. trajectories: how many real ones."""

    sequences: NDArray[np.int64]
    trajectories: int


def mini_batches(
    trajectory_of_sequence: NDArray[np.int64], updates: int, processes: int, rng: np.random.Generator
) -> tuple[list[MiniBatch], int]:
    """The mini-batches of an iteration, and how many sequences of padding there are in all (`filled_up`).

    The trajectories are shuffled and split as evenly as possible, as in the embedded trainer, each with all of its
    sequences: a mini-batch holds what the filter kept and no more. More updates than trajectories: as many as those.
    """
    trajectories = int(trajectory_of_sequence.max(initial=-1)) + 1
    parts = np.array_split(rng.permutation(trajectories), updates)
    return filled_up([part for part in parts if len(part)], trajectory_of_sequence, processes)


def filled_up(
    parts: Sequence[NDArray[np.int64]], trajectory_of_sequence: NDArray[np.int64], processes: int
) -> tuple[list[MiniBatch], int]:
    """Parts, the numbers of their trajectories, as mini-batches, and how many sequences of padding there are in all.

    trajectory_of_sequence   (S,) with trajectories numbered from 0

    Sequences are numbered from 0; those from S on are padding, which makes the size of each mini-batch a multiple of
    the number of processes.
    """
    batches, filled = [], len(trajectory_of_sequence)
    for part in parts:
        sequences = np.flatnonzero(np.isin(trajectory_of_sequence, part))
        padding = -len(sequences) % processes
        numbers = np.concatenate([sequences, np.arange(filled, filled + padding)]).astype(np.int64)
        batches.append(MiniBatch(numbers, len(part)))
        filled += padding
    return batches, filled - len(trajectory_of_sequence)
