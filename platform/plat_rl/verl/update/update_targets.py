"""Targets of an iteration's updates, for verl's sequences.

Advantages are computed over whole trajectories by the code of the embedded trainer, both for episodes of one sequence
and for episodes with a sequence for each turn.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

from plat_rl.embedded.batch import Packed, pack_tokens, token_rewards
from plat_rl.loop.trajectory_table import Trajectories
from plat_rl.rl import algorithms
from plat_rl.verl.settings.verl_config import VerlRunConfig

WEIGHT = "plat_loss_weight"  # field of a row: weight of each token, see `targets`


def targets(
    config: VerlRunConfig,
    batch: Trajectories,
    trajectory_of_sequence: np.ndarray,
    mask: Tensor,
    values: Tensor | None,
    advantage_scale: float = 1.0,
) -> dict[str, Tensor]:
    """Return `advantages`, `returns` and, if needed, WEIGHT of the response tokens; (S', W) each, 0 elsewhere.

    trajectory_of_sequence   (S,) of the first S of the sequences; the others are padding without a response token
    mask                     (S', W) 1 at tokens that the policy wrote
    values                   (S', W) of the critic; None without a critic

    WEIGHT is 1 / number of response tokens of the trajectory. With it, a trajectory of several sequences counts as one
    in a mean over trajectories of their token means.
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
    return {name: _unpacked(value, packed, mask) for name, value in result.items()}


def _unpacked(values: Tensor, packed: Packed, mask: Tensor) -> Tensor:
    """Scatter values (N, T) to the response tokens of sequences of the shape of `mask`; 0 elsewhere."""
    result = values.new_zeros(mask.shape)
    result[packed.row, packed.column] = packed.flat(values)
    return result
