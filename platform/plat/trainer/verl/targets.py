"""What the updates of an iteration learn from, for sequences as verl has them.

Advantages are computed over whole trajectories by the same code as in the embedded trainer: the response tokens of all
turns of a trajectory one after the other, whether verl has the episode as one sequence or each turn as one of its own.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError
from plat.rl import algorithms
from plat.trainer.embedded.batch import Packed, pack_tokens
from plat.trainer.loop.trajectories import Trajectories
from plat.trainer.verl.config import VerlRunConfig

WEIGHT = "plat_loss_weight"  # the field of a row that says how much each token counts, see `targets`


def targets(
    config: VerlRunConfig,
    batch: Trajectories,
    trajectory_of_sequence: np.ndarray,
    mask: Tensor,
    values: Tensor | None,
    advantage_scale: float = 1.0,
) -> dict[str, Tensor]:
    """`advantages` and `returns` of the response tokens, and where it is needed WEIGHT; (S', W) each, 0 elsewhere.

    trajectory_of_sequence   (S,) of the first S of the sequences; the others are padding without a response token
    mask                     (S', W) 1 at tokens that the policy wrote
    values                   (S', W) of the critic; None where there is none

    WEIGHT is 1 over the response tokens of the trajectory. With it a trajectory of several sequences counts as one
    where the loss is the mean over trajectories of their token means.
    """
    packed = pack_tokens(mask.bool().numpy(), trajectory_of_sequence, batch.trajectories)
    advantages, returns = algorithms.advantages(
        config.algorithm,
        token_rewards(batch, packed),
        packed.mask,
        batch.group,
        None if values is None else packed.pack(values[packed.row, packed.column]),
    )
    result = {"advantages": advantages * advantage_scale, "returns": returns}
    if config.train.context == "current" and config.algorithm.loss_agg == "seq-mean-token-mean":
        result[WEIGHT] = packed.mask / packed.mask.sum(1, keepdim=True)
    return {name: unpacked(value, packed, mask) for name, value in result.items()}


def token_rewards(batch: Trajectories, packed: Packed) -> Tensor:
    """(N, T) float64: the reward of each turn at the last token of its response.

    RunError where the tokens that came back are not as many as were played.
    """
    tokens = batch.per_trajectory(batch.response_length).astype(np.int64)
    if not np.array_equal(tokens, packed.mask.sum(1).long().numpy()):
        raise RunError("the tokens of a batch are not those that were played")
    before = (np.cumsum(tokens) - tokens)[batch.trajectory_of_row]  # of earlier trajectories
    last = np.cumsum(batch.response_length) - before - 1
    # float64: returns that are equal stay equal, and a group without spread keeps an advantage of zero
    rewards = torch.zeros(packed.mask.shape, dtype=torch.float64)
    rewards[torch.from_numpy(batch.trajectory_of_row), torch.from_numpy(last)] = torch.from_numpy(batch.rewards)
    return rewards


def unpacked(values: Tensor, packed: Packed, mask: Tensor) -> Tensor:
    """(N, T) values put where the response tokens lie in sequences of the shape of `mask`; 0 elsewhere."""
    result = values.new_zeros(mask.shape)
    result[packed.row, packed.column] = packed.flat(values)
    return result
