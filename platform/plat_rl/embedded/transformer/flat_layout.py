"""The layout of a batch's tokens in the flat array of `flat_pass`: prompts first, then responses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from plat_rl.embedded.batch import Batch, length_groups, pad_prompts
from plat_rl.embedded.transformer.layers import causal_mask, rope
from plat_rl.embedded.transformer.model import Shape, Weights

WORTH = 128  # padded attention positions that cost as much as the operations of one more block


@dataclass(frozen=True)
class Block:
    """Rows that attend together: B sequences of at most T new tokens each, after nothing or after a prompt each."""

    rows: int  # B
    length: int  # T
    padded: Tensor  # (B * T,) index of the flat token at each position; any at padding
    flat: Tensor  # (tokens,) position of each flat token among the B * T; one of them if it is in several rows
    prompt_of_row: Tensor | None  # (B,)
    mask: Tensor  # (B or 1, 1, T, S): 0 where a token sees another, -inf elsewhere


@dataclass(frozen=True)
class Layout:
    """Positions of a batch's tokens: those of U prompts, common beginnings once, then the responses by block."""

    shape: Shape
    ids: Tensor  # (tokens,) what is fed
    rotations: Tensor  # (tokens, (heads + kv_heads) * head_dim / 2) complex
    prompt_tokens: int  # distinct beginnings of prompts, at most U * P
    prompts: Block
    responses: list[Block]
    order: Tensor | None  # from the blocks' order of response tokens to row after row; None: the same


def make_layout(weights: Weights, batch: Batch, pad: int) -> Layout:
    """Return the layout of the prompts and responses of a batch; `pad` is the token id of padding."""
    prompt_of_row, responses, lengths = batch.prompt_of_row, batch.responses, batch.response_length
    ids, prompt_lengths, last = pad_prompts(batch.prompts, pad, "cpu")
    count, longest_prompt = ids.shape
    whole = np.full(count, longest_prompt) if prompt_lengths is None else prompt_lengths.numpy()
    number, first = distinct_beginnings(ids.numpy())
    mask = causal_mask(longest_prompt, 0, weights.embed)[None, None]
    prompt_block = Block(count, longest_prompt, torch.from_numpy(number), torch.from_numpy(first), None, mask)
    blocks, fed, targets = [], [ids.flatten()[prompt_block.flat]], []
    positions = [first % longest_prompt]
    starts = np.cumsum(lengths) - lengths  # of each row among all response tokens
    for group in length_groups(lengths, worth=WORTH):
        longest = int(lengths[group].max())
        row, column = np.nonzero(np.arange(longest) < lengths[group][:, None])
        padded = np.zeros((len(group), longest), dtype=np.int64)
        padded[row, column] = np.arange(len(row))
        of_row = torch.from_numpy(prompt_of_row[group])
        inputs = torch.cat((last[of_row, None], torch.from_numpy(responses[group, : longest - 1])), 1)
        flat = torch.from_numpy(row * longest + column)
        mask = causal_mask(longest, longest_prompt, weights.embed)[None, None]
        if prompt_lengths is not None:
            hidden = torch.arange(longest_prompt) >= prompt_lengths[of_row, None]
            mask = mask.repeat(len(group), 1, 1, 1)
            mask[..., :longest_prompt].masked_fill_(hidden[:, None, None], float("-inf"))
        blocks.append(Block(len(group), longest, torch.from_numpy(padded.ravel()), flat, of_row, mask))
        fed.append(inputs.flatten()[flat])
        positions.append(whole[prompt_of_row[group]][row] + column)
        targets.append(starts[group][row] + column)
    shape = weights.shape
    position = np.concatenate(positions)
    table = rope(shape.head_dim, shape.rope_theta, int(position.max(initial=0)) + 1, weights.embed)
    rotations = table.repeat(1, shape.heads + shape.kv_heads)[torch.from_numpy(position)]
    order = torch.from_numpy(np.argsort(np.concatenate(targets))) if len(blocks) > 1 else None
    return Layout(shape, torch.cat(fed), rotations, len(first), prompt_block, blocks, order)


def distinct_beginnings(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct beginnings of the rows of ids (U, P).

    Returns number (U * P,), where number[u * P + p] is that of ids[u, :p + 1], and first (distinct,), a position
    u * P + p at which each beginning ends.
    """
    if not ids.size:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    order = np.lexsort(ids.T[::-1])  # rows that begin alike become neighbours
    ordered = ids[order]
    new = np.ones(ids.shape, dtype=bool)
    new[1:] = np.logical_or.accumulate(ordered[1:] != ordered[:-1], axis=1)
    numbered = np.where(new, np.cumsum(new).reshape(ids.shape) - 1, 0)
    number = np.empty_like(numbered)
    number[order] = np.maximum.accumulate(numbered, axis=0)
    row, column = np.nonzero(new)
    return number.ravel(), order[row] * ids.shape[1] + column
