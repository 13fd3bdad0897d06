"""The trajectories of one iteration, as arrays, with their tokens.

A *row* is one turn of one trajectory: a prompt and the response to it. In `current` context the prompt is the state, in
`full` context it is the whole history. N trajectories, B rows, R the longest response, U distinct prompts; more in
`plat_rl.loop.trajectory_table`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError
from plat_rl.loop.trajectory_table import Trajectories, stacked


@dataclass(kw_only=True)
class Batch(Trajectories):
    prompts: list[tuple[int, ...]]  # U distinct prompts, token ids
    prompt_of_row: np.ndarray  # (B,) index into prompts
    responses: np.ndarray  # (B, R) token ids, padded
    log_probs: np.ndarray  # (B, R) float32 of the sampled tokens, under the sampling distribution

    @property
    def token_mask(self) -> np.ndarray:
        """A mask (B, R), True at response tokens."""
        return np.arange(self.responses.shape[1]) < self.response_length[:, None]

    def select(self, trajectories: np.ndarray) -> Batch:
        """Return the batch of these trajectories (distinct indices) only, renumbered in the order given."""
        new_number = np.full(self.trajectories, -1)
        new_number[trajectories] = np.arange(len(trajectories))
        rows = np.flatnonzero(new_number[self.trajectory_of_row] >= 0)
        rows = rows[np.lexsort((self.turn_of_row[rows], new_number[self.trajectory_of_row[rows]]))]
        used, prompt_of_row = np.unique(self.prompt_of_row[rows], return_inverse=True)
        width = int(self.response_length[rows].max(initial=1))
        chosen: dict[str, Any] = {}
        for name in ARRAYS:
            values = getattr(self, name)[trajectories if name in ("group", "success") else rows]
            chosen[name] = values[:, :width] if values.ndim == 2 else values
        chosen["trajectory_of_row"] = new_number[chosen["trajectory_of_row"]]
        chosen["prompt_of_row"] = prompt_of_row
        return Batch(prompts=[self.prompts[number] for number in used], **chosen)


ARRAYS = tuple(field.name for field in fields(Batch) if field.name != "prompts")


def is_last_turn(batch: Batch) -> np.ndarray:
    """Return a mask (B,), True at the last turn of each trajectory."""
    return np.append(np.diff(batch.trajectory_of_row) > 0, True)  # rows are sorted by trajectory, then turn


def concatenate(batches: list[Batch]) -> Batch:
    """Join batches and renumber their trajectories. Groups keep their numbers, which must already be distinct."""
    if len(batches) == 1:
        return batches[0]
    joined = {name: stacked([getattr(batch, name) for batch in batches]) for name in ARRAYS}
    index: dict[tuple[int, ...], int] = {}
    start = before = 0  # rows and trajectories of earlier batches
    for batch in batches:
        rows = slice(start, start + len(batch.turn_of_row))
        numbers = np.array([index.setdefault(prompt, len(index)) for prompt in batch.prompts])
        joined["prompt_of_row"][rows] = numbers[batch.prompt_of_row]
        joined["trajectory_of_row"][rows] += before
        start, before = rows.stop, before + batch.trajectories
    return Batch(prompts=list(index), **joined)


def pad_prompts(prompts: list[tuple[int, ...]], pad: int, device: str) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return the prompts without their last token, right-padded (U, P - 1), their lengths, and the last tokens (U,).

    The lengths (U,) are None if all are equal.
    """
    lengths = [len(prompt) - 1 for prompt in prompts]
    longest = max(lengths)
    same = min(lengths) == longest
    padded = [prompt[:-1] + (pad,) * (longest - len(prompt) + 1) for prompt in prompts]
    ids = torch.tensor(padded, dtype=torch.long, device=device)
    last = torch.tensor([prompt[-1] for prompt in prompts], device=device)
    return ids, None if same else torch.tensor(lengths, device=device), last


def length_groups(lengths: np.ndarray, worth: int = 512) -> list[np.ndarray]:
    """Split rows into groups of similar length, so that padding wastes little: arrays of ascending row numbers.

    lengths   (B,) tokens of each row
    worth     padded tokens that a further group must save: about the cost of one more pass
    """

    def split(part: np.ndarray) -> list[np.ndarray]:
        own = lengths[part]
        saved = np.arange(1, len(part)) * (own[-1] - own[:-1])  # by a cut after row 0, 1, ..
        cut = int(saved.argmax()) + 1 if len(saved) else 0
        return [*split(part[:cut]), *split(part[cut:])] if cut and saved[cut - 1] >= worth else [np.sort(part)]

    return split(np.argsort(lengths, kind="stable"))


@dataclass
class Packed:
    """The position of each response token of a batch in an (N, T) layout: a line per trajectory, turn after turn."""

    row: Tensor  # (tokens,)
    column: Tensor  # (tokens,) position in its row
    trajectory: Tensor  # (tokens,)
    position: Tensor  # (tokens,) position in its trajectory
    mask: Tensor  # (N, T) float

    def pack(self, values: Tensor) -> Tensor:
        """Scatter values (tokens,) into (N, T), with zeros elsewhere."""
        return values.new_zeros(self.mask.shape).index_put((self.trajectory, self.position), values)

    def flat(self, packed: Tensor) -> Tensor:
        """Gather the values (tokens,) out of (N, T)."""
        return packed[self.trajectory, self.position]


def packing(batch: Batch, device: str) -> Packed:
    """Return the token layout of advantages and losses."""
    return pack_tokens(batch.token_mask, batch.trajectory_of_row, batch.trajectories, device)


def pack_tokens(
    token_mask: np.ndarray, trajectory_of_row: np.ndarray, trajectories: int, device: str = "cpu"
) -> Packed:
    """Return the layout of the tokens where `token_mask` (rows, columns) is true.

    Rows are sorted by trajectory, then turn. Rows without a token need no trajectory.
    """
    row, column = np.nonzero(token_mask)
    trajectory = trajectory_of_row[row]
    starts = np.zeros(trajectories + 1, dtype=np.int64)
    np.cumsum(np.bincount(trajectory, minlength=trajectories), out=starts[1:])
    position = np.arange(len(row)) - starts[trajectory]
    mask = torch.zeros(trajectories, int(position.max(initial=0)) + 1, device=device)
    rows, columns, lines, positions = (
        torch.from_numpy(index).to(device) for index in (row, column, trajectory, position)
    )
    mask[lines, positions] = 1.0
    return Packed(rows, columns, lines, positions, mask)


def token_rewards(batch: Trajectories, packed: Packed) -> Tensor:
    """Return rewards (N, T) float64: the reward of each turn at the last token of its response.

    Raises RunError if the token counts differ from those of the played responses.
    """
    tokens = batch.per_trajectory(batch.response_length).astype(np.int64)
    if not np.array_equal(tokens, packed.mask.sum(1).long().cpu().numpy()):
        raise RunError("the tokens of a batch are not those that were played")
    before = (np.cumsum(tokens) - tokens)[batch.trajectory_of_row]  # of earlier trajectories
    last = np.cumsum(batch.response_length) - before - 1
    # float64: equal returns stay equal, so that a group without spread has advantages of zero
    rewards = torch.zeros(packed.mask.shape, dtype=torch.float64)
    rewards[torch.from_numpy(batch.trajectory_of_row), torch.from_numpy(last)] = torch.from_numpy(batch.rewards)
    return rewards.to(packed.mask.device)
