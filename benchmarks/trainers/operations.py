"""The floating-point operations a step must do, and the rate of matrix products that they are held against.

They are those of the matrix products on the tokens and distinct prompts that were really there: prompts and decoding,
cross-scoring of distinct reasonings, updates forward and backward, attention and head included; nothing for padding,
normalisations, softmax, sampling or the environments.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from plat.trainer.embedded import cross_score, scoring
from plat.trainer.embedded.train import _Run
from plat.trainer.embedded.transformer.model import Shape


class Operations:
    """Counts what must be multiplied, by watching the calls of the trainer's three consumers of compute."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.total = 0.0

    def prompts(self, lengths: Iterable[int]) -> float:
        """Keys and values of prompts; nothing needs the last layer's output there, nor the last token."""
        s = self.shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        whole = (q + 2 * kv) * s.width + q * s.width + 3 * s.width * s.ffn
        per_token = 2.0 * ((s.layers - 1) * whole + 2 * kv * s.width)
        attention = 4.0 * q * (s.layers - 1)
        return float(sum(per_token * (n - 1) + attention * (n - 1) * n / 2 for n in lengths))

    def responses(self, prompts: np.ndarray, tokens: np.ndarray) -> float:
        """Responses of `tokens` tokens after prompts of `prompts` tokens, with the head."""
        s = self.shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        whole = (q + 2 * kv) * s.width + q * s.width + 3 * s.width * s.ffn
        per_token = 2.0 * (s.layers * whole + s.vocabulary * s.width)
        seen = tokens * (prompts - 1) + tokens * (tokens + 1) / 2
        return float((per_token * tokens + 4.0 * q * s.layers * seen).sum())

    def batch(self, batch: Any) -> float:
        lengths = np.array([len(prompt) for prompt in batch.prompts])
        return self.prompts(lengths) + self.responses(lengths[batch.prompt_of_row], batch.response_length)

    def watch(self, run: _Run) -> None:
        play, hidden, score = run.collector.rollout, scoring.hidden_states, cross_score.log_likelihoods

        def _rollout(*arguments: Any) -> Any:
            batch = play(*arguments)
            self.total += self.batch(batch)
            return batch

        def _hidden(weights: Any, batch: Any, pad: int) -> Any:
            self.total += self.batch(batch) * (3 if torch.is_grad_enabled() else 1)
            return hidden(weights, batch, pad)

        def log_likelihoods(weights: Any, prompts: Any, reasonings: Any, lengths: np.ndarray, *more: Any) -> Any:
            sizes = np.array([len(prompt) for prompt in prompts])
            distinct = {tuple(tokens[:length]) for tokens, length in zip(reasonings.tolist(), lengths, strict=True)}
            pairs = np.broadcast_arrays(sizes[:, None], np.array([len(tokens) for tokens in distinct])[None, :])
            self.total += self.prompts(sizes) + self.responses(*pairs)
            return score(weights, prompts, reasonings, lengths, *more)

        run.collector.rollout = _rollout  # type: ignore[method-assign]
        scoring.hidden_states = _hidden
        cross_score.log_likelihoods = log_likelihoods


class MatrixProduct:
    """One float32 matrix product of 1024 x 1024, timed."""

    def __init__(self, size: int = 1024) -> None:
        self.a, self.b = torch.randn(size, size), torch.randn(size, size)
        self.gflop = 2 * size**3 / 1e9

    def __call__(self) -> float:
        started = time.process_time()
        self.a @ self.b
        return time.process_time() - started
