"""The mini-batches of an iteration, the targets of its updates, and the metrics that come back, for verl."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from plat_rl.embedded.batch import Packed, pack_tokens, token_rewards
from plat_rl.loop.trajectory_table import Trajectories
from plat_rl.rl import algorithms
from plat_rl.verl.settings.verl_config import VerlRunConfig


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


# Targets of an iteration's updates, for verl's sequences.
#
# Advantages are computed over whole trajectories by the code of the embedded trainer, both for episodes of one sequence
# and for episodes with a sequence for each turn.

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


# Metrics of verl's workers in an update, under the names of both trainers.

# verl's name -> ours
ACTOR_METRICS = {
    "actor/pg_loss": "actor/pg_loss",
    "actor/pg_clipfrac": "actor/clip_fraction",
    "actor/pg_clipfrac_lower": "actor/clip_fraction_lower",
    "actor/ppo_kl": "actor/ppo_kl",
    "entropy": "actor/entropy",
    "kl": "actor/kl",
    "grad_norm": "actor/grad_norm",
}
CRITIC_METRICS = {
    "critic/vf_loss": "critic/value_loss",
    "critic/vf_clipfrac": "critic/value_clip_fraction",
    "grad_norm": "critic/grad_norm",
}


def renamed(measured: dict[str, Any], names: dict[str, str]) -> dict[str, float]:
    """Return verl's metrics of a mini-batch under our names, each reduced to one number; drop all others.

    verl's `reduce_metrics` does the reduction: the values of a list are averaged, unless their name or type says
    otherwise.

    names   verl's name -> ours
    """
    from verl.utils.metric import reduce_metrics

    reduced = reduce_metrics({name: value for name, value in measured.items() if name in names})
    return {names[name]: float(value) for name, value in reduced.items()}
