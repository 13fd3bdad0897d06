"""What replaces functions of verl computes the same, and is replaced only where it must be."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from plat_rl.verl.cpu import repairs


@pytest.mark.filterwarnings("ignore")  # what verl imports warns of its own future
@pytest.mark.parametrize("on_cpu", [True, False])
def test_a_gpu_keeps_nccl_and_pinned_memory(monkeypatch: pytest.MonkeyPatch, on_cpu: bool) -> None:
    from verl.utils import distributed, fsdp_utils, model, torch_functional

    asked = []
    seeing: list[bool] = []
    monkeypatch.setattr(repairs, "repair_vision", lambda: seeing.append(True))  # see test_vision_repairs
    places: tuple[tuple[object, str], ...] = (
        (fsdp_utils, "CPUOffloadPolicy"), (model, "load_valuehead_model"), (torch_functional, "logprobs_from_logits_v2")
    )  # fmt: skip
    for module, name in places:  # as before, at the end
        monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(fsdp_utils, "CPUOffloadPolicy", torch.distributed.fsdp.CPUOffloadPolicy)
    original = lambda timeout_second=None, backend=None: asked.append(backend)  # noqa: E731
    monkeypatch.setattr(distributed, "initialize_global_process_group_ray", original)
    repairs.repair(on_cpu)
    distributed.initialize_global_process_group_ray()
    assert asked == ["gloo" if on_cpu else None], "verl chooses nccl for a GPU"
    assert fsdp_utils.CPUOffloadPolicy(pin_memory=True).pin_memory is not on_cpu
    assert model.load_valuehead_model is repairs.load_critic
    assert torch_functional.logprobs_from_logits_v2 is repairs.label_log_probs
    assert seeing == [True]


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
