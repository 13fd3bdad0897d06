"""Responses drawn with a cache of keys and values, against the model's own full forward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from plat_rl.verl.cpu import generation
from plat_rl.verl.cpu.generation import Request, generate

STOP, PAD = 3, 0


@pytest.fixture(scope="module")
def model() -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=12, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=24, tie_word_embeddings=True, initializer_range=0.6,
    )  # fmt: skip
    return Qwen2ForCausalLM(config).eval()


def answers(model: Any, requests: list[Request]) -> list[tuple[list[int], list[float]]]:
    return [(answer.tokens, answer.log_probs) for answer in generate(model, requests, frozenset({STOP}), PAD)]


REQUESTS = [
    Request([5, 6, 7], 1, 1.0, 12),
    Request([4, 5, 6, 7, 8, 9, 10], 2, 0.7, 9),
    Request([11], 3, 0.0, 6),
    Request([5, 6, 7], 4, 1.0, 2),
]


def test_log_probabilities_are_those_of_the_whole_sequence(model: Any) -> None:
    for request, (tokens, log_probs) in zip(REQUESTS, answers(model, REQUESTS), strict=True):
        assert 1 <= len(tokens) <= request.max_tokens and STOP not in tokens[:-1]
        with torch.no_grad():
            logits = model(torch.tensor([[*request.prompt, *tokens]])).logits[0, len(request.prompt) - 1 : -1]
        if request.temperature == 0:
            assert tokens == logits.argmax(-1).tolist() and log_probs == [0.0] * len(tokens)
            continue
        expected = (logits / request.temperature).log_softmax(-1)[range(len(tokens)), tokens]
        assert torch.allclose(torch.tensor(log_probs), expected, atol=1e-5)


def test_a_response_does_not_depend_on_its_company(model: Any) -> None:
    together = answers(model, REQUESTS)
    for request, (tokens, _) in zip(REQUESTS, together, strict=True):
        assert answers(model, [request])[0][0] == tokens
    assert [tokens for tokens, _ in answers(model, REQUESTS[::-1])] == [tokens for tokens, _ in together][::-1]


def test_how_often_it_looks_for_the_ends_changes_nothing(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = [Request([5, 6, 7 + seed % 5], seed, 1.0, 3 + seed % 20) for seed in range(24)]
    steps = []
    model.register_forward_hook(lambda *_: steps.append(1))
    found = []
    for every in (1, 8, 1000):
        monkeypatch.setattr(generation, "CHECK_EVERY", every)
        steps.clear()
        found.append((answers(model, requests), len(steps)))
    (exact, fewest), (ours, some), (blind, most) = found
    assert exact == ours == blind, "to the last bit"
    assert max(len(tokens) for tokens, _ in exact) == fewest <= some < fewest + 8 and most == 22


def test_what_is_drawn_follows_the_distribution(model: Any) -> None:
    requests = [Request([5, 6], seed, 1.0, 1) for seed in range(4000)]
    drawn = torch.tensor([tokens[0] for tokens, _ in answers(model, requests)])
    with torch.no_grad():
        expected = model(torch.tensor([[5, 6]])).logits[0, -1].softmax(-1)
    share = torch.bincount(drawn, minlength=12) / len(requests)
    assert float((share - expected).abs().max()) < 0.03  # four standard errors
