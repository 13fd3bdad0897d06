"""Generate responses of a transformers model to many prompts at once, with a key-value cache.

Token t is drawn with the t-th number of a generator seeded by the request, so a response does not depend on the others
of its batch, except for rounding in matrix products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

CHECK_EVERY = 8  # tokens between two looks whether all responses have ended: a look makes the CPU wait for the GPU


@dataclass(frozen=True)
class Request:
    """A prompt to answer: token ids, random seed, temperature (0: greedy), and the maximum number of tokens."""

    prompt: Sequence[int]
    seed: int
    temperature: float
    max_tokens: int


@dataclass(frozen=True)
class Response:
    """Token ids, including the end token if the model produced one, and the log-probability of each when drawn."""

    tokens: list[int]
    log_probs: list[float]


@torch.inference_mode()
def generate(model: Any, requests: Sequence[Request], stops: frozenset[int], pad: int) -> list[Response]:
    """Return one response to each request, in order; `stops` are the ids of end tokens, `pad` is the padding's id."""
    device = next(model.parameters()).device
    ids, mask = _left_padded([request.prompt for request in requests], pad)
    ids, mask = ids.to(device), mask.to(device)
    temperature = torch.tensor([request.temperature for request in requests], device=device)
    longest = max(request.max_tokens for request in requests)
    # of each request, uniform numbers in [0, 1)
    sources = [torch.Generator().manual_seed(request.seed) for request in requests]
    chances = torch.stack([torch.rand(longest, generator=own, dtype=torch.float64) for own in sources]).to(device)
    limits = torch.tensor([request.max_tokens for request in requests], device=device)
    ending = torch.tensor(sorted(stops), device=device)
    ended = torch.zeros(len(requests), dtype=torch.bool, device=device)
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    cache, drawn, scores = None, [], []
    for at in range(longest):
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
            logits_to_keep=1,
        )  # fmt: skip
        cache = output.past_key_values
        token, log_prob = _draw(output.logits[:, -1], temperature, chances[:, at])
        drawn.append(token)
        scores.append(log_prob)
        ended |= torch.isin(token, ending) | (at + 1 >= limits)
        if (at + 1) % CHECK_EVERY == 0 and bool(ended.all()):
            break  # what was drawn after a response's end is cut
        ids, positions = token[:, None], positions[:, -1:] + 1
        mask = torch.cat((mask, mask.new_ones(len(requests), 1)), -1)
    tokens, log_probs = torch.stack(drawn, 1).tolist(), torch.stack(scores, 1).tolist()
    return [
        _cut(row, values, request.max_tokens, stops)
        for row, values, request in zip(tokens, log_probs, requests, strict=True)
    ]


def _left_padded(prompts: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    """Return ids and mask (B, longest) of prompts padded on the left, so that all end in the last column."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[pad] * (longest - len(prompt)) + list(prompt) for prompt in prompts])
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    return ids, mask


def _draw(logits: Tensor, temperature: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a token per row of logits (B, vocabulary), with its log-probability; temperature 0: the likeliest, 0."""
    greedy = temperature == 0
    scaled = logits.float() / torch.where(greedy, 1.0, temperature)[:, None]
    logs = scaled.log_softmax(-1)
    mass = logs.double().exp().cumsum(-1)
    token = torch.searchsorted(mass, (chances * mass[:, -1])[:, None]).clamp(max=logits.shape[-1] - 1)[:, 0]
    token = torch.where(greedy, logits.argmax(-1), token)
    return token, torch.where(greedy, 0.0, logs.gather(-1, token[:, None])[:, 0])


def _cut(tokens: list[int], log_probs: list[float], limit: int, stops: frozenset[int]) -> Response:
    """Return the response cut at its limit, or after its first end token."""
    length = next((at + 1 for at, token in enumerate(tokens[:limit]) if token in stops), limit)
    return Response(tokens[:length], log_probs[:length])
