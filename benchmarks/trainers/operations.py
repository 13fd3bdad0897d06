"""Count the floating-point operations that a step needs, and measure the rate of matrix products for comparison.

Counted are matrix products on the tokens and distinct prompts without padding: prompts and decoding, cross-scoring of
distinct reasonings, updates forward and backward, with attention and head. Padding, normalisations, softmax, sampling
and environments count nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from plat_rl.embedded import scoring
from plat_rl.embedded.train import _Run
from plat_rl.embedded.transformer.model import Shape


class Operations:
    """Count operations by watching calls of the trainer's three consumers of compute."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.total = shape, 0.0
        self.q, self.kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.layer = 2.0 * shape.width * (2 * self.q + 2 * self.kv + 3 * shape.ffn)  # of a token

    def prompts(self, lengths: Iterable[int]) -> float:
        """Return the operations for keys and values of prompts, without the last layer's output and the last token."""
        layers = self.shape.layers - 1
        per_token, attention = layers * self.layer + 4.0 * self.kv * self.shape.width, 4.0 * self.q * layers
        return float(sum(per_token * (n - 1) + attention * (n - 1) * n / 2 for n in lengths))

    def responses(self, prompts: np.ndarray, tokens: np.ndarray) -> float:
        """Return the operations for responses of `tokens` tokens after prompts of `prompts` tokens, with the head."""
        per_token = self.shape.layers * self.layer + 2.0 * self.shape.vocabulary * self.shape.width
        seen = tokens * (prompts - 1) + tokens * (tokens + 1) / 2
        return float((per_token * tokens + 4.0 * self.q * self.shape.layers * seen).sum())

    def batch(self, batch: Any) -> float:
        lengths = np.array([len(prompt) for prompt in batch.prompts])
        return self.prompts(lengths) + self.responses(lengths[batch.prompt_of_row], batch.response_length)

    def watch(self, run: _Run) -> None:
        play, hidden, score = run.collector.rollout, scoring.hidden_states, scoring.log_likelihoods

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
        scoring.log_likelihoods = log_likelihoods


class MatrixProduct:
    """One float32 matrix product of 1024 x 1024, timed."""

    def __init__(self, size: int = 1024) -> None:
        self.a, self.b = torch.randn(size, size), torch.randn(size, size)
        self.gflop = 2 * size**3 / 1e9

    def __call__(self) -> float:
        started = time.process_time()
        self.a @ self.b
        return time.process_time() - started
