"""The trajectories of one iteration, as arrays, with their tokens.

A *row* is one turn of one trajectory: a prompt and the response to it. In `current` context the prompt is the state, in
`full` context it is the whole history. N trajectories, B rows, R the longest response, U distinct prompts; more in
`plat.trainer.loop.trajectories`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from plat.trainer.loop.trajectories import Trajectories


@dataclass(kw_only=True)
class Batch(Trajectories):
    prompts: list[tuple[int, ...]]  # U distinct prompts, token ids
    prompt_of_row: np.ndarray  # (B,) index into prompts
    responses: np.ndarray  # (B, R) token ids, padded
    log_probs: np.ndarray  # (B, R) float32 of the sampled tokens, under the sampling distribution

    @property
    def token_mask(self) -> np.ndarray:
        """(B, R) True at response tokens."""
        return np.arange(self.responses.shape[1]) < self.response_length[:, None]

    def select(self, trajectories: np.ndarray) -> Batch:
        """The batch of these trajectories only, renumbered in the order given."""
        new_number = np.full(self.trajectories, -1)
        new_number[trajectories] = np.arange(len(trajectories))
        rows = np.flatnonzero(new_number[self.trajectory_of_row] >= 0)
        rows = rows[np.lexsort((self.turn_of_row[rows], new_number[self.trajectory_of_row[rows]]))]
        used, prompt_of_row = np.unique(self.prompt_of_row[rows], return_inverse=True)
        width = int(self.response_length[rows].max(initial=1))
        return Batch(
            prompts=[self.prompts[number] for number in used],
            prompt_of_row=prompt_of_row,
            trajectory_of_row=new_number[self.trajectory_of_row[rows]],
            turn_of_row=self.turn_of_row[rows],
            responses=self.responses[rows, :width],
            response_length=self.response_length[rows],
            reasoning_length=self.reasoning_length[rows],
            log_probs=self.log_probs[rows, :width],
            entropies=self.entropies[rows, :width],
            rewards=self.rewards[rows],
            group=self.group[trajectories],
            success=self.success[trajectories],
            format_valid=self.format_valid[rows],
            reasoning_level=self.reasoning_level[rows],
            actions=self.actions[rows],
            moves=self.moves[rows],
        )


def is_last_turn(batch: Batch) -> np.ndarray:
    """(B,) True at the last turn of each trajectory."""
    return np.append(np.diff(batch.trajectory_of_row) > 0, True)  # rows are sorted by trajectory, then turn


def concatenate(batches: list[Batch]) -> Batch:
    """Several batches as one; groups must already be numbered apart."""
    if len(batches) == 1:
        return batches[0]
    index: dict[tuple[int, ...], int] = {}
    width = max(batch.responses.shape[1] for batch in batches)
    prompt_of_row, trajectory_of_row, before = [], [], 0
    for batch in batches:
        numbers = np.array([index.setdefault(prompt, len(index)) for prompt in batch.prompts])
        prompt_of_row.append(numbers[batch.prompt_of_row])
        trajectory_of_row.append(batch.trajectory_of_row + before)
        before += batch.trajectories

    def rows(name: str) -> np.ndarray:
        arrays = [getattr(batch, name) for batch in batches]
        if arrays[0].ndim == 2:
            arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1]))) for array in arrays]
        return np.concatenate(arrays)

    joined = {"prompt_of_row": np.concatenate(prompt_of_row), "trajectory_of_row": np.concatenate(trajectory_of_row)}
    rest = [field.name for field in fields(Batch) if field.name not in ("prompts", *joined)]
    return Batch(prompts=list(index), **joined, **{name: rows(name) for name in rest})


def pad_prompts(prompts: list[tuple[int, ...]], pad: int, device: str) -> tuple[Tensor, Tensor | None, Tensor]:
    """Prompts less their last token, right-padded (U, P - 1); their lengths, None if all equal; last tokens (U,)."""
    lengths = [len(prompt) - 1 for prompt in prompts]
    longest = max(lengths)
    same = min(lengths) == longest
    padded = [prompt[:-1] + (pad,) * (longest - len(prompt) + 1) for prompt in prompts]
    ids = torch.tensor(padded, dtype=torch.long, device=device)
    last = torch.tensor([prompt[-1] for prompt in prompts], device=device)
    return ids, None if same else torch.tensor(lengths, device=device), last


def length_groups(lengths: np.ndarray, worth: int = 512) -> list[np.ndarray]:
    """Rows in groups of similar length, in rising order within each: padding a group to its longest wastes little.

    A further group must save `worth` padded tokens, about what the pass over one more group costs.
    """

    def split(part: np.ndarray) -> list[np.ndarray]:
        own = lengths[part]
        saved = np.arange(1, len(part)) * (own[-1] - own[:-1])  # by a cut after row 0, 1, ..
        cut = int(saved.argmax()) + 1 if len(saved) else 0
        return [*split(part[:cut]), *split(part[cut:])] if cut and saved[cut - 1] >= worth else [np.sort(part)]

    return split(np.argsort(lengths, kind="stable"))


@dataclass
class Packed:
    """Where each response token of a batch goes in a (N, T) layout: a line per trajectory, turn after turn."""

    row: Tensor  # (tokens,)
    column: Tensor  # (tokens,) position in its row
    trajectory: Tensor  # (tokens,)
    position: Tensor  # (tokens,) position in its trajectory
    mask: Tensor  # (N, T) float

    def pack(self, values: Tensor) -> Tensor:
        """(tokens,) -> (N, T), zeros elsewhere."""
        return values.new_zeros(self.mask.shape).index_put((self.trajectory, self.position), values)

    def flat(self, packed: Tensor) -> Tensor:
        """(N, T) -> (tokens,)."""
        return packed[self.trajectory, self.position]


def packing(batch: Batch, device: str) -> Packed:
    """The token layout that advantages and losses are computed in."""
    return pack_tokens(batch.token_mask, batch.trajectory_of_row, batch.trajectories, device)


def pack_tokens(
    token_mask: np.ndarray, trajectory_of_row: np.ndarray, trajectories: int, device: str = "cpu"
) -> Packed:
    """The layout of the tokens where `token_mask` (rows, columns) is true; rows are sorted by trajectory, then turn.

    Rows without a token need no trajectory.
    """
    row, column = np.nonzero(token_mask)
    trajectory = trajectory_of_row[row]
    starts = np.zeros(trajectories + 1, dtype=np.int64)
    np.cumsum(np.bincount(trajectory, minlength=trajectories), out=starts[1:])
    position = np.arange(len(row)) - starts[trajectory]
    mask = torch.zeros(trajectories, int(position.max(initial=0)) + 1, device=device)
    rows, columns, lines, places = (torch.from_numpy(index).to(device) for index in (row, column, trajectory, position))
    mask[lines, places] = 1.0
    return Packed(rows, columns, lines, places, mask)


def token_rewards(batch: Batch, packed: Packed) -> Tensor:
    """(N, T): the reward of each turn at the last token of its response."""
    last = torch.from_numpy(batch.response_length - 1).to(packed.row.device)[packed.row] == packed.column
    # float64: returns that are equal stay equal, and a group without spread keeps an advantage of zero
    rewards = torch.from_numpy(batch.rewards).to(packed.row.device)[packed.row]
    return packed.pack(rewards * last)
