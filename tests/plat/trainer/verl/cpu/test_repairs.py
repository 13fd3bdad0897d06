"""What replaces functions of verl on the CPU computes the same."""

from __future__ import annotations

from pathlib import Path

import torch

from plat.trainer.verl.cpu import repairs


def test_label_log_probs_in_chunks_are_those_of_log_softmax(monkeypatch: object) -> None:
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 7, 11, generator=generator, dtype=torch.float64).requires_grad_()
    labels = torch.randint(11, (3, 7), generator=generator)
    weights = torch.randn(3, 7, generator=generator, dtype=torch.float64)
    repairs.CHUNK, before = 4, repairs.CHUNK
    try:
        ours = repairs.label_log_probs(logits, labels)
        (mine,) = torch.autograd.grad((ours * weights).sum(), logits, retain_graph=True)
    finally:
        repairs.CHUNK = before
    reference = logits.log_softmax(-1).gather(-1, labels[..., None])[..., 0]
    (theirs,) = torch.autograd.grad((reference * weights).sum(), logits)
    assert torch.allclose(ours, reference, atol=1e-12) and torch.allclose(mine, theirs, atol=1e-12)


def test_label_log_probs_of_half_precision_are_computed_in_single() -> None:
    logits = (torch.randn(5, 1000) * 4).bfloat16()
    labels = torch.arange(5)
    ours = repairs.label_log_probs(logits, labels)
    assert ours.dtype == torch.float32
    assert torch.allclose(ours, logits.float().log_softmax(-1)[range(5), labels], atol=1e-6)


def test_a_critic_starts_from_the_language_model_with_a_head_of_zeros(tmp_path: Path) -> None:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    config = Qwen2Config(
        vocab_size=12, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        intermediate_size=24, attn_implementation="sdpa",
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(tmp_path)
    config.num_labels = 1
    critic = repairs.load_critic(str(tmp_path), torch.float32, config, False)
    assert torch.equal(critic.model.embed_tokens.weight, model.model.embed_tokens.weight)
    assert critic.config._attn_implementation == "sdpa"
    assert not critic(torch.tensor([[1, 2, 3]])).logits.any()
