"""Decoding token by token beyond the positions that are read at least, and after rows were dropped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

from plat_rl.embedded.batch import pad_prompts
from plat_rl.embedded.generate import Decoder
from plat_rl.embedded.transformer.model import Shape, encode, extend, unpack

SHAPES = {
    "least 50 positions": Shape(50, 2, 32, 4, 4, 48),
    "least 17 positions": Shape(50, 1, 24, 6, 1, 40, tie_embeddings=False),
}
PROMPTS = {
    "mixed": [(3, 4, 5, 6, 7, 8, 9), (10, 11), (16,)],
    "equal": [(3, 4, 5, 6), (10, 11, 12, 13), (3, 4, 6, 5)],
    "one token": [(16,), (17,), (18,)],
    "longer than the least": [tuple(range(3, 45)) + (5,) * 20, (10, 11, 12), (16,) * 30 + (17,) * 25],
}
TOKENS, DROP = 60, 9  # tokens decoded; the step before which a row is dropped


@pytest.fixture
def memory_holds_nan() -> Iterator[None]:
    """Arrays that nothing was written to hold NaN, so that reading one shows."""
    torch.use_deterministic_algorithms(True)  # fills uninitialised memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS.keys())
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_many_tokens_equal_one_pass_over_them(shape, prompts, lively_parameters, memory_holds_nan):
    weights = unpack(shape, lively_parameters(shape))
    ids, lengths, last = pad_prompts(prompts, 0, "cpu")
    responses = torch.randint(0, shape.vocabulary, (3, TOKENS), generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        prefix, rows = encode(weights, ids, lengths), torch.tensor([2, 0, 1])
        fed = torch.cat((last[rows, None], responses[:, :-1]), 1)
        expected = F.linear(extend(weights, prefix, rows, fed), weights.head)
        decoder = Decoder(weights, prefix, rows, TOKENS)
        alive = torch.arange(3)
        for step in range(TOKENS):
            if step == DROP:
                alive = torch.tensor([0, 2])
                decoder.select(alive)
            torch.testing.assert_close(decoder.step(fed[alive, step]), expected[alive, step], atol=1e-5, rtol=1e-5)
