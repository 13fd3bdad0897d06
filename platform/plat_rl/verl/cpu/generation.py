"""Generate responses of a transformers model to many prompts at once, with a key-value cache.

Token t is drawn with the t-th number of a generator seeded by the request, so a response does not depend on the others
of its batch, except for rounding in matrix products.

Prompts of a Qwen2.5-VL may have pictures. Their features go through the model with the prompt; later passes find them
in the cache. Every token has three positions (time, row, column), which are equal outside of pictures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from plat_rl.verl.vision.processor import VisionProcessor

CHECK_EVERY = 8  # tokens between two looks whether all responses have ended: a look makes the CPU wait for the GPU


@dataclass(frozen=True)
class Request:
    """A prompt to answer: token ids, random seed, temperature (0: greedy), and the maximum number of tokens.

    images   of Pillow, in the order of their places in the prompt
    """

    prompt: Sequence[int]
    seed: int
    temperature: float
    max_tokens: int
    images: Sequence[Any] = ()


@dataclass(frozen=True)
class Response:
    """Token ids, including the end token if the model produced one, and the log-probability of each when drawn."""

    tokens: list[int]
    log_probs: list[float]


@torch.inference_mode()
def generate(
    model: Any, requests: Sequence[Request], stops: frozenset[int], pad: int, vision: VisionProcessor | None = None
) -> list[Response]:
    """Return one response to each request, in order.

    stops    ids of end tokens
    pad      the padding's id
    vision   of a model that sees pictures; tokens that stand for a picture are then never drawn, and the
             log-probabilities stay those of all tokens
    """
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
    positions, features = _positions(ids, mask, requests, vision)
    banned = list(vision.never_sampled) if vision else []
    cache, drawn, scores = None, [], []
    for at in range(longest):
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True,
            logits_to_keep=1, **features,
        )  # fmt: skip
        cache, features = output.past_key_values, {}
        token, log_prob = _draw(output.logits[:, -1], temperature, chances[:, at], banned)
        drawn.append(token)
        scores.append(log_prob)
        ended |= torch.isin(token, ending) | (at + 1 >= limits)
        if (at + 1) % CHECK_EVERY == 0 and bool(ended.all()):
            break  # what was drawn after a response's end is cut
        ids, positions = token[:, None], positions[..., -1:] + 1
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


def _positions(
    ids: Tensor, mask: Tensor, requests: Sequence[Request], vision: VisionProcessor | None
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the positions of left-padded prompts, (B, longest) or with `vision` (3, B, longest), and their features.

    All prompts end with a token of text, whose position is the largest of the row.
    """
    if vision is None:
        return (mask.cumsum(-1) - 1).clamp(min=0), {}
    images = [image for request in requests for image in request.images]
    if not images:
        return vision.positions(ids, None, mask), {}
    pixels, grids = vision.features(images)
    features = {"pixel_values": pixels.to(ids.device), "image_grid_thw": grids.to(ids.device)}
    return vision.positions(ids, features["image_grid_thw"], mask), features


def _draw(logits: Tensor, temperature: Tensor, chances: Tensor, banned: list[int]) -> tuple[Tensor, Tensor]:
    """Draw a token per row of logits (B, vocabulary), with its log-probability; temperature 0: the likeliest, 0.

    banned   ids that are never drawn; the log-probabilities count them
    """
    greedy = temperature == 0
    scaled = logits.float() / torch.where(greedy, 1.0, temperature)[:, None]
    logs = scaled.log_softmax(-1)
    probabilities = logs.double().exp()
    if banned:
        probabilities[:, banned] = 0.0
        logits = logits.index_fill(-1, torch.tensor(banned, device=logits.device), -torch.inf)
    mass = probabilities.cumsum(-1)
    token = torch.searchsorted(mass, (chances * mass[:, -1])[:, None]).clamp(max=logits.shape[-1] - 1)[:, 0]
    token = torch.where(greedy, logits.argmax(-1), token)
    return token, torch.where(greedy, 0.0, logs.gather(-1, token[:, None])[:, 0])


def _cut(tokens: list[int], log_probs: list[float], limit: int, stops: frozenset[int]) -> Response:
    """Return the response cut at its limit, or after its first end token."""
    length = next((at + 1 for at, token in enumerate(tokens[:limit]) if token in stops), limit)
    return Response(tokens[:length], log_probs[:length])
