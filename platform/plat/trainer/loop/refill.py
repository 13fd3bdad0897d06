"""DAPO's dynamic sampling on batches of trajectories: prompts whose returns are all equal give way to fresh ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from plat.rl.dynamic_sampling import Refills
from plat.trainer.loop.trajectories import Trajectories, trajectories_of

Batch = TypeVar("Batch", bound=Trajectories)


def refill(
    first: Batch, roll_out: Callable[[int, int], Batch], prompts: int, group_size: int, max_refills: int
) -> tuple[list[Batch], NDArray[np.int64], dict[str, float]]:
    """Roll out more, as often as allowed, until P prompts are there that teach something.

    first      the batch of the iteration, of P `prompts` with G trajectories each (`group_size`)
    roll_out   (number of the refill, from 1; number of fresh prompts) -> their trajectories

    Returns all batches, the first one included; the numbers of the trajectories to learn from, counted through all
    batches, at most P * G of them and perhaps none; and the `rollout/` metrics of it.
    """
    refills = Refills(prompts, max_refills)
    batches = [first]
    missing = refills.offer(first.returns.reshape(-1, group_size))
    while missing:
        batches.append(roll_out(len(batches), missing))
        missing = refills.offer(batches[-1].returns.reshape(-1, group_size))
    before = np.cumsum([0, *(batch.trajectories // group_size for batch in batches)])  # prompts, of earlier batches
    chosen = [before[number] + prompt for number, prompt in refills.chosen]
    return batches, trajectories_of(chosen, group_size), refills.metrics()
