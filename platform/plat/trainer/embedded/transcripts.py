"""What was said and done in the trajectories of a batch, as text that people read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.transformer.tokenizer import Tokenizer


def transcripts(batch: Batch, tokenizer: Tokenizer, seeds: Sequence[int], count: int) -> list[dict[str, Any]]:
    """The first `count` trajectories, JSON-able.

    seed      of the instance
    success   0 or 1
    turns     [observation, response, reward] of each turn. In `full` context an observation is what the prompt has
              beyond the prompt and response before it
    """
    rows: list[list[int]] = [[] for _ in range(min(count, batch.trajectories))]
    for row in np.flatnonzero(batch.trajectory_of_row < count):
        rows[batch.trajectory_of_row[row]].append(int(row))
    return [
        {"seed": int(seed), "success": int(batch.success[number]), "turns": _turns(batch, tokenizer, own)}
        for number, (seed, own) in enumerate(zip(seeds, rows, strict=False))
    ]


def _turns(batch: Batch, tokenizer: Tokenizer, rows: Sequence[int]) -> list[list[Any]]:
    turns, before = [], ()
    for row in rows:
        prompt = batch.prompts[batch.prompt_of_row[row]]
        response = batch.responses[row, : batch.response_length[row]].tolist()
        said = response[:-1] if response[-1] == tokenizer.eos else response
        seen = len(before) if before and prompt[: len(before)] == before else 0
        observation = tokenizer.decode(list(prompt[seen:]))
        turns.append([observation, tokenizer.decode(said), round(float(batch.rewards[row]), 6)])
        before = (*prompt, *said, tokenizer.eos)
    return turns
