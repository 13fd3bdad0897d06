"""Pictures as tokens of a stand-in in the Qwen2.5-VL format without vision blocks (depth 0, merge 1, one frame).

A patch of 8 x 8 pixels is one token. Without vision blocks its features depend on its own pixels alone. So a visual
token is named by what it shows and where: bit 62, 50 bits of a hash of the pixels, 6 bits each of row and column in
its picture. Prompts with other pictures are other tuples of ids, wherever ids are compared. The ids do not depend on
the order in which pictures are seen, so a resumed run has the ids of an uninterrupted one.

The positions of M-RoPE are those of transformers' `Qwen2_5_VLModel.get_rope_index`: (time, height, width) of a patch
are (s, s + row, s + column), where s is the position after the text before the picture, and the text continues after
the largest of them. All three of a text token are equal.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from plat_rl.embedded.transformer.layers import rope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from plat_rl.embedded.transformer.model import Shape, Weights

PATCH = 8  # side of a patch [pixels]
MOST = 64  # patches of a picture in a row or column, at most
INPUTS = 3 * PATCH * PATCH  # numbers of a patch
EPS = 1e-6  # of the norm in the merger, as in transformers
VISUAL = 1 << 62  # ids from here on are patches
_ROW, _HASH = 6, 12  # the bits at which row and hash begin
_pixels: dict[int, NDArray[np.floating[Any]]] = {}  # hash -> (INPUTS,) of every patch that this process has seen


def visual_tokens(image: NDArray[np.uint8]) -> list[int]:
    """Return the token ids of the patches of an image (height, width, 3), row by row.

    Raises ValueError if its sides are no multiples of 8 pixels, or longer than 64 patches, or if it is not of uint8.
    """
    if image.dtype != np.uint8:  # numbers of another type would be other colours
        raise ValueError(f"a picture has values of type {image.dtype}, not uint8")
    rows, columns = image.shape[0] // PATCH, image.shape[1] // PATCH
    if image.shape != (rows * PATCH, columns * PATCH, 3) or not 0 < rows <= MOST or not 0 < columns <= MOST:
        raise ValueError(f"a picture of shape {image.shape} is not made of at most {MOST} x {MOST} patches of 8 pixels")
    patches = image.reshape(rows, PATCH, columns, PATCH, 3).transpose(0, 2, 4, 1, 3).reshape(-1, INPUTS)
    ids = []
    for number, patch in enumerate(patches):
        digest = int.from_bytes(hashlib.blake2b(patch.tobytes(), digest_size=8).digest()) >> 14
        if digest not in _pixels:
            scaled = patch.astype(np.float32)
            _pixels[digest] = (scaled / 255 - 0.5) / 0.5
        row, column = divmod(number, columns)
        ids.append(VISUAL | digest << _HASH | row << _ROW | column)
    return ids


def blanked(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """Return a prompt with every patch grey, as in the pictures of an environment with `blank: true`."""
    from plat_envs.games.pictures import GREY  # needs Pillow, which text does not

    grey = visual_tokens(np.full((PATCH, PATCH, 3), GREY, dtype=np.uint8))[0]
    place = (1 << _HASH) - 1  # the bits of row and column
    return tuple(grey | token & place if token >= VISUAL else token for token in prompt)


def positions(ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions (U, P + 1, 3) of token ids (U, P) and of one text token after them; padding is text."""
    found = np.zeros((len(ids), ids.shape[1] + 1, 3), dtype=np.int64)
    found[:] = np.arange(ids.shape[1] + 1)[:, None]
    for number in np.flatnonzero((ids >= VISUAL).any(axis=1)):
        at, start, largest = 0, 0, -1  # the next position, that of the picture, and the largest of its rows and columns
        for place, token in enumerate([*ids[number].tolist(), 0]):
            if token >= VISUAL:
                row, column = token >> _ROW & MOST - 1, token & MOST - 1
                if largest < 0 or row == column == 0:  # a picture begins, perhaps right after another one
                    start, largest = at if largest < 0 else start + largest + 1, 0
                found[number, place] = start, start + row, start + column
                largest = max(largest, row, column)
                continue
            if largest >= 0:
                at, largest = start + largest + 1, -1
            found[number, place] = at
            at += 1
    return found


def sections(head_dim: int) -> tuple[int, int, int]:
    """Return how many rotary pairs time, height and width have, in Qwen2.5-VL's shares: 16, 24 and 24 of 64."""
    pairs = head_dim // 2
    time = pairs // 4
    height = (pairs - time) // 2
    return time, height, pairs - time - height


def turns_at(shape: Shape, where: NDArray[np.int64], like: Tensor) -> Tensor:
    """Return the rotations (.., head_dim / 2) of positions (.., 3)."""
    table = rope(shape.head_dim, shape.rope_theta, int(where.max(initial=0)) + 1, like)
    index = torch.from_numpy(where).to(like.device)
    axis = np.repeat(np.arange(3), sections(shape.head_dim))
    return table[index[..., axis], torch.arange(len(axis), device=like.device)]


@dataclass(frozen=True)
class Vision:
    """The weights of patch embedding and merger."""

    embed: Tensor  # (vision, INPUTS)
    norm: Tensor  # (vision,)
    inner: Tensor  # (vision, vision)
    inner_bias: Tensor
    outer: Tensor  # (width, vision)
    outer_bias: Tensor


def entries(vision: int, width: int) -> list[tuple[str, tuple[int, ...]]]:
    """Return (Hugging Face name, shape) of the parameters of a tower of this width, as `Shape.entries` does."""
    return [
        ("visual.patch_embed.proj.weight", (vision, 3, 1, PATCH, PATCH)),
        ("visual.merger.ln_q.weight", (vision,)),
        ("visual.merger.mlp.0.weight", (vision, vision)),
        ("visual.merger.mlp.0.bias", (vision,)),
        ("visual.merger.mlp.2.weight", (width, vision)),
        ("visual.merger.mlp.2.bias", (width,)),
    ]


def unpack_vision(vision: int, width: int, flat: Tensor) -> Vision:
    """Return the end of a flat parameter vector as the matrices of `entries`."""
    shapes = [shape for _, shape in entries(vision, width)]
    embed, *others = torch.split(flat, [math.prod(shape) for shape in shapes])
    views: list[Any] = [part.view(shape) for part, shape in zip(others, shapes[1:], strict=True)]
    return Vision(embed.view(vision, INPUTS), *views)


def features(vision: Vision, ids: Tensor) -> Tensor:
    """Return the embeddings (n, width) of visual tokens (n,). Each distinct patch is computed once."""
    digests, number = np.unique((ids.cpu().numpy() & VISUAL - 1) >> _HASH, return_inverse=True)
    pixels = torch.from_numpy(np.stack([_pixels[digest] for digest in digests.tolist()])).to(vision.embed)
    x = pixels @ vision.embed.T
    x = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPS) * vision.norm
    x = F.linear(F.gelu(F.linear(x, vision.inner, vision.inner_bias)), vision.outer, vision.outer_bias)
    return x[torch.from_numpy(number).to(ids.device)]


def embedded(weights: Weights, ids: Tensor) -> Tensor:
    """Return the embeddings (.., width) of token ids (..), words and patches."""
    if weights.vision is None:
        return F.embedding(ids, weights.embed)
    is_visual = ids >= VISUAL
    x = F.embedding(ids.masked_fill(is_visual, 0), weights.embed)
    if not bool(is_visual.any()):
        return x
    return x.index_put(tuple(torch.nonzero(is_visual).T), features(weights.vision, ids[is_visual]))
