"""A lean Qwen2 forward pass over one flat parameter vector, equal to `transformers`' Qwen2 within 1e-5 on logits.

Rows of `q_proj` and `k_proj` keep rotary pairs side by side (`hf` converts the order), so a rotation is one complex
product. A sequence is computed in two parts, because many responses share a prompt:

    prefix = encode(weights, prompts)            once per distinct prompt; keys and values only
    hidden = extend(weights, prefix, rows, ids)  any number of continuations; row b continues prompt rows[b]

With `vision` it is Qwen2.5-VL: prompts may have patches of pictures among their tokens (`vision`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat_rl.embedded.transformer.attention import attend
from plat_rl.embedded.transformer.layers import after_prompts, causal_mask, rope, swiglu, turn_qkv, unit_norm
from plat_rl.embedded.transformer.vision import Vision, embedded, entries, positions, turns_at, unpack_vision


@dataclass(frozen=True)
class Shape:
    """Sizes of a Qwen2 transformer; `head_dim` is width / heads.

    vision   width of the features of a patch of a picture; 0: a text model
    """

    vocabulary: int
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    rope_theta: float = 10000.0
    eps: float = 1e-6
    tie_embeddings: bool = True
    vision: int = 0

    @property
    def head_dim(self) -> int:
        return self.width // self.heads

    def entries(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return (Hugging Face name, shape) of every parameter, in the order of the flat vector."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        found: list[tuple[str, tuple[int, ...]]] = [("model.embed_tokens.weight", (self.vocabulary, self.width))]
        for layer in range(self.layers):
            at = f"model.layers.{layer}."
            found += [
                (at + "input_layernorm.weight", (self.width,)),
                (at + "self_attn.q_proj.weight", (q, self.width)),
                (at + "self_attn.k_proj.weight", (kv, self.width)),
                (at + "self_attn.v_proj.weight", (kv, self.width)),
                (at + "self_attn.q_proj.bias", (q,)),
                (at + "self_attn.k_proj.bias", (kv,)),
                (at + "self_attn.v_proj.bias", (kv,)),
                (at + "self_attn.o_proj.weight", (self.width, q)),
                (at + "post_attention_layernorm.weight", (self.width,)),
                (at + "mlp.gate_proj.weight", (self.ffn, self.width)),
                (at + "mlp.up_proj.weight", (self.ffn, self.width)),
                (at + "mlp.down_proj.weight", (self.width, self.ffn)),
            ]
        found.append(("model.norm.weight", (self.width,)))
        if not self.tie_embeddings:
            found.append(("lm_head.weight", (self.vocabulary, self.width)))
        return found + (entries(self.vision, self.width) if self.vision else [])

    @property
    def parameters(self) -> int:
        return sum(math.prod(shape) for _, shape in self.entries())


@dataclass(frozen=True)
class Layer:
    qkv: Tensor  # ((heads + 2 kv_heads) * head_dim, width); the rows of queries are scaled for attention
    qkv_bias: Tensor
    out: Tensor
    gate_up: Tensor  # (2 ffn, width)
    down: Tensor


@dataclass(frozen=True)
class Weights:
    """A flat parameter vector as matrices, fused where the forward pass multiplies them as one, norms folded in."""

    shape: Shape
    embed: Tensor
    layers: list[Layer]
    head: Tensor
    vision: Vision | None = None


def unpack(shape: Shape, flat: Tensor) -> Weights:
    """Return the flat vector (shape.parameters,) as matrices; gradients flow back into the vector.

    Some matrices are views of the vector, others are copies: after it has changed, unpack it again.
    """
    width, ffn = shape.width, shape.ffn
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    per_layer = [width, (q + 2 * kv) * width, q + 2 * kv, width * q, width, 2 * ffn * width, width * ffn]
    sizes = [shape.vocabulary * width, *(per_layer * shape.layers), width]
    if not shape.tie_embeddings:
        sizes.append(shape.vocabulary * width)
    vision = None
    if shape.vision:
        text = sum(sizes)
        vision = unpack_vision(shape.vision, width, flat[text:])
        flat = flat[:text]
    parts = list(torch.split(flat, sizes))
    root = math.sqrt(width)  # see `unit_norm`
    scale = flat.new_ones(q + 2 * kv)
    scale[:q] = shape.head_dim**-0.5
    embed = parts.pop(0).view(shape.vocabulary, width)
    layers = []
    for _ in range(shape.layers):
        norm1, qkv, bias, out, norm2, gate_up, down = (parts.pop(0) for _ in range(7))
        layers.append(
            Layer(
                qkv.view(-1, width) * torch.outer(scale, norm1 * root),
                bias * scale,
                out.view(width, q),
                gate_up.view(-1, width) * (norm2 * root),
                down.view(width, ffn),
            )
        )
    norm = parts.pop(0)
    head = embed if shape.tie_embeddings else parts.pop(0).view(shape.vocabulary, width)
    return Weights(shape, embed, layers, head * (norm * root), vision)


@dataclass(frozen=True)
class Prefix:
    """Keys and values of U prompts: per layer (U, kv_heads, P, head_dim); `lengths` (U,) or None if all are P.

    starts   (U,) the rotary position of the token after each prompt; None: its length, as in all text
    """

    keys: list[Tensor]
    values: list[Tensor]
    length: int
    lengths: Tensor | None
    starts: Tensor | None = None

    def first_positions(self, rows: Tensor) -> Tensor | None:
        """Return the rotary position (B,) after prompt rows[b]; None if it is `length` for all."""
        after = self.lengths if self.starts is None else self.starts
        return None if after is None else after[rows]


def _project(shape: Shape, layer: Layer, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rotated queries, rotated keys and values of x (B, T, width): (B, heads or kv_heads, T, head_dim)."""
    fused = F.linear(unit_norm(x, shape.eps), layer.qkv, layer.qkv_bias)
    fused = fused.view(*x.shape[:2], shape.heads + 2 * shape.kv_heads, shape.head_dim)
    return turn_qkv(fused, turns, shape.heads, shape.kv_heads)


def _keys_and_values(shape: Shape, layer: Layer, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor]:
    """Do what `_project` does, without queries."""
    skip = shape.heads * shape.head_dim
    fused = F.linear(unit_norm(x, shape.eps), layer.qkv[skip:], layer.qkv_bias[skip:])
    fused = fused.view(*x.shape[:2], 2 * shape.kv_heads, shape.head_dim)
    return turn_qkv(fused, turns, 0, shape.kv_heads)[1:]


def feed_forward(shape: Shape, layer: Layer, x: Tensor) -> Tensor:
    return F.linear(swiglu(F.linear(unit_norm(x, shape.eps), layer.gate_up)), layer.down)


def encode(weights: Weights, ids: Tensor, lengths: Tensor | None = None) -> Prefix:
    """Return keys and values of prompts ids (U, P), right-padded if `lengths` (U,) is given. Causal attention."""
    shape = weights.shape
    turns, starts = _prompt_turns(weights, ids, lengths)
    mask = causal_mask(ids.shape[1], 0, weights.embed)
    x = embedded(weights, ids)
    all_keys, all_values = [], []
    for layer in weights.layers[:-1]:
        queries, keys, values = _project(shape, layer, x, turns)
        all_keys.append(keys)
        all_values.append(values)
        x = x + F.linear(attend(queries, keys, values, mask), layer.out)
        x = x + feed_forward(shape, layer, x)
    keys, values = _keys_and_values(shape, weights.layers[-1], x, turns)  # nothing else is read at prompt positions
    return Prefix([*all_keys, keys], [*all_values, values], ids.shape[1], lengths, starts)


def _prompt_turns(weights: Weights, ids: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return the rotations of prompts ids (U, P), to be broadcast over heads, and `Prefix.starts`."""
    shape = weights.shape
    if weights.vision is None:
        return rope(shape.head_dim, shape.rope_theta, ids.shape[1], weights.embed)[: ids.shape[1], None], None
    where = positions(ids.cpu().numpy())
    ends = np.full(len(ids), ids.shape[1]) if lengths is None else lengths.cpu().numpy()
    starts = torch.from_numpy(where[np.arange(len(ids)), ends, 0]).to(ids.device)
    return turns_at(shape, where[:, :-1], weights.embed)[:, :, None], starts


def extend(weights: Weights, prefix: Prefix | None, rows: Tensor | None, ids: Tensor) -> Tensor:
    """Return hidden states (B, T, width), after `unit_norm`, of padded ids (B, T); row b continues prompt rows[b]."""
    shape = weights.shape
    batch, tokens = ids.shape
    before = prefix.length if prefix else 0
    table = rope(shape.head_dim, shape.rope_theta, before + tokens, weights.embed)
    mask = causal_mask(tokens, before, weights.embed)
    first = prefix.first_positions(rows) if prefix is not None and rows is not None else None
    if prefix is None:
        turns = _prompt_turns(weights, ids, None)[0]
    elif first is None:
        turns = table[before : before + tokens, None]
    else:
        turns = table[first[:, None] + torch.arange(tokens, device=ids.device)][:, :, None]
    if prefix is not None and prefix.lengths is not None:
        padding = torch.arange(before, device=ids.device) >= prefix.lengths[rows][:, None]
        mask = mask.repeat(batch, 1, 1, 1)
        mask[..., :before].masked_fill_(padding[:, None, None], float("-inf"))
    x = embedded(weights, ids)
    for number, layer in enumerate(weights.layers):
        queries, keys, values = _project(shape, layer, x, turns)
        if prefix is not None:
            assert rows is not None
            keys = after_prompts(prefix.keys[number], rows, keys)
            values = after_prompts(prefix.values[number], rows, values)
        x = x + F.linear(attend(queries, keys, values, mask), layer.out)
        x = x + feed_forward(shape, layer, x)
    return unit_norm(x, shape.eps)


def initialise(shape: Shape, seed: int) -> Tensor:
    """Return random float32 parameters: matrices normal with deviation .5 / sqrt(columns), norms 1, biases 0."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for name, size in shape.entries():
        if name.endswith(("norm.weight", "ln_q.weight")):
            parts.append(torch.ones(size))
        elif name.endswith("bias"):
            parts.append(torch.zeros(size))
        else:
            std = 0.5 / math.sqrt(math.prod(size[1:]))
            parts.append(torch.randn(size, generator=generator) * std)
    return torch.cat([part.reshape(-1) for part in parts])
