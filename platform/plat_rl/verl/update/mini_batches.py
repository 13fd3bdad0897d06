"""Split the kept trajectories into the mini-batches of an iteration, and pad them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class MiniBatch(NamedTuple):
    """sequences: indices of its rows in TransferQueue, padding included. trajectories: number without padding."""

    sequences: NDArray[np.int64]
    trajectories: int


def mini_batches(
    trajectory_of_sequence: NDArray[np.int64], updates: int, processes: int, rng: np.random.Generator
) -> tuple[list[MiniBatch], int]:
    """Return the mini-batches of an iteration, and the number of padding sequences (`filled_up`).

    Trajectories, each with all of its sequences, are shuffled and split as evenly as possible, as in the embedded
    trainer. There are `updates` mini-batches, or as many as trajectories if these are fewer.
    """
    trajectories = int(trajectory_of_sequence.max(initial=-1)) + 1
    parts = np.array_split(rng.permutation(trajectories), updates)
    return filled_up([part for part in parts if len(part)], trajectory_of_sequence, processes)


def filled_up(
    parts: Sequence[NDArray[np.int64]], trajectory_of_sequence: NDArray[np.int64], processes: int
) -> tuple[list[MiniBatch], int]:
    """Return parts (trajectory indices) as mini-batches, and the number of padding sequences.

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
