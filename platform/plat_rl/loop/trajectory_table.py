"""Trajectories as arrays, without their tokens: the measurements of a batch and of an evaluation.

A *row* is one turn of one trajectory. There are N trajectories and B rows; R is the longest response. Rows are sorted
by trajectory, then turn. The trajectories of a group (one training instance, one prompt of the batch) are adjacent:
prompt p of a batch with groups of G has the trajectories p * G to p * G + G - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from plat_envs.api import LEVELS
from plat_envs.sandbox.hack import KINDS
from plat_rl.loop.turns import NO_PROGRAM, NOT_GRADED
from plat_rl.rl.statistics import prompt_metrics, rollout_metrics


@dataclass(kw_only=True)
class Trajectories:
    trajectory_of_row: np.ndarray  # (B,)
    turn_of_row: np.ndarray  # (B,) from 0
    response_length: np.ndarray  # (B,) including eos
    reasoning_length: np.ndarray  # (B,) leading tokens that are reasoning; -1 when the think section never closed
    entropies: np.ndarray  # (B, R) of the sampling distribution at each token, zero after the response's end
    rewards: np.ndarray  # (B,) float64 reward of the turn
    group: np.ndarray  # (N,) group number of each trajectory
    success: np.ndarray  # (N,) bool
    format_valid: np.ndarray  # (B,) bool
    reasoning_level: np.ndarray  # (B,) index into plat_envs.api.LEVELS; or as in `played_response`
    actions: np.ndarray  # (B,) actions that the environment executed in the turn
    moves: np.ndarray  # (B,) those of them that changed the state
    constant_reward: np.ndarray  # (B,) what the best answer that ignores the input earns; NaN where nobody says
    tricks: np.ndarray  # (B,) a bit for each of plat_envs.sandbox.hack.KINDS; or as in `played_response`

    @property
    def trajectories(self) -> int:
        return len(self.group)

    def per_trajectory(self, values: np.ndarray) -> np.ndarray:
        """Return the sums (N,) of a (B,) array over the rows of each trajectory."""
        return np.bincount(self.trajectory_of_row, weights=values, minlength=self.trajectories)

    @property
    def returns(self) -> np.ndarray:
        """(N,) summed rewards of each trajectory, format penalties included."""
        return self.per_trajectory(self.rewards)


def stacked(arrays: Sequence[np.ndarray], padding: int = 0) -> np.ndarray:
    """Join arrays (n,), or (n, R) padded to the longest R, one below the other."""
    if arrays[0].ndim == 2:
        width = max(array.shape[1] for array in arrays)
        arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=padding) for array in arrays]
    return np.concatenate(arrays)


def batch_metrics(batch: Trajectories, group_size: int, by_prompt: bool = False) -> dict[str, float]:
    """Return the `rollout/` metrics of a batch before any filtering; `by_prompt` adds those of `prompt_metrics`."""
    returns, success = batch.returns.reshape(-1, group_size), batch.success.reshape(-1, group_size)
    further = prompt_metrics(returns, success) if by_prompt else {}
    return rollout_metrics(returns) | {
        "rollout/success": float(batch.success.mean()),
        "rollout/format_valid": float(batch.format_valid.mean()),
        "rollout/response_tokens": float(batch.response_length.mean()),
        "rollout/entropy": float(batch.entropies.sum() / batch.response_length.sum()),
        **level_shares("rollout/", "reasoning_parses", batch.reasoning_level),
        **constant_reward("rollout/", batch),
        **trick_shares(batch.tricks),
        **further,
    }


def level_shares(prefix: str, parsed: str, levels: np.ndarray) -> dict[str, float]:
    """Return the share of reasonings that have a level, under the name `parsed`, and of each level.

    `facts_true` is the share of those that state facts whose facts all hold; left out if none states any.

    levels   (B,) index into LEVELS, NOT_A_LEVEL or NOT_GRADED. With a NOT_GRADED among them, returns {}
    """
    if (levels == NOT_GRADED).any():
        return {}
    shares = {f"{prefix}level/{name}": float((levels == index).mean()) for index, name in enumerate(LEVELS)}
    stated = levels > LEVELS.index("template")
    if stated.any():
        shares[f"{prefix}facts_true"] = float((levels[stated] != LEVELS.index("wrong_facts")).mean())
    return {prefix + parsed: float((levels >= 0).mean())} | shares


def constant_reward(prefix: str, batch: Trajectories) -> dict[str, float]:
    """Return the mean of what the best constant answer earns, over the turns whose environment says it; else {}."""
    known = batch.constant_reward[~np.isnan(batch.constant_reward)]
    return {f"{prefix}constant_reward": float(known.mean())} if len(known) else {}


def trick_shares(tricks: np.ndarray) -> dict[str, float]:
    """Return the share of the programs that try some trick, and that of each kind; {} if there are no programs."""
    known = tricks[tricks != NO_PROGRAM]
    if not len(known):
        return {}
    shares = {f"hack/{kind}": float((known >> number & 1).mean()) for number, kind in enumerate(KINDS)}
    return {"hack/any": float((known > 0).mean())} | shares


def evaluation_metrics(batch: Trajectories) -> dict[str, float]:
    """Return the `val/` metrics, without that prefix, of an evaluation with one trajectory per instance.

    success, return          means over instances
    turns                    mean number of turns of an episode
    actions_per_turn         mean number of actions that the environment executed in a turn
    moves_per_turn           mean number of those that changed the state (in text tasks: valid answers)
    format_valid             share of the turns with a valid format
    response_tokens          mean length of a response
    constant_reward          mean of what the best constant answer earns, where the environment says it
    """
    return {
        "success": float(batch.success.mean()),
        "return": float(batch.returns.mean()),
        "turns": len(batch.turn_of_row) / batch.trajectories,
        "actions_per_turn": float(batch.actions.mean()),
        "moves_per_turn": float(batch.moves.mean()),
        "format_valid": float(batch.format_valid.mean()),
        "response_tokens": float(batch.response_length.mean()),
        **constant_reward("", batch),
    }


def instance_results(batch: Trajectories) -> dict[str, Any]:
    """Return JSON-able lists with a value for each trajectory, in order: success (0 or 1), return, turns, moves."""
    return {
        "success": batch.success.astype(int).tolist(),
        "return": [round(float(value), 6) for value in batch.returns],
        "turns": batch.per_trajectory(np.ones(len(batch.turn_of_row))).astype(int).tolist(),
        "moves": batch.per_trajectory(batch.moves).astype(int).tolist(),
    }
