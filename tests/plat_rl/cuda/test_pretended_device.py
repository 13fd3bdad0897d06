"""Whole runs on a device that is not there: they break no rule of CUDA, and have the bits of a CPU run.

The CPU run is made to take the paths of the device: responses of all rows at once, updates in padded groups, attention
in parts, tokens chosen by sums of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretended_device import DEVICE, Pretended, PretendedDevice

from plat_rl.embedded import generate
from plat_rl.embedded.train import train
from plat_rl.embedded.transformer import attention, flat_pass, model

SHORT = (
    *(
        "train.iterations=2",
        "task.turns=2",
        "+task.env.max_solution=2",
        "task.response_tokens=16",
        "task.reward_noise=0.1",
    ),
    *("task.reward_noise=0.1", "eval.every=2", "eval.instances=2", "eval.heldout=1", "mi.probe=8"),
)
RUNS = {
    "ppo": ("qwen2.5-like", "algorithm=ppo", "train.critic_warmup=1"),
    "grpo": (
        *("llama-like", "algorithm=grpo", "algorithm.kl_coef=0.01", "train.micro_batch=2"),
        *("filter=top_p", "train.precheck=1", "eval.reasoning_swap=true"),
        *("gradient.times=1", "gradient.prompts=2", "gradient.group_size=4", "gradient.buckets=2"),
        "gradient.halves=true",
    ),
    "dapo": ("qwen2.5-like", "algorithm=dapo", "train.group_size=2", "task.reward_noise=0"),
}


@pytest.fixture
def ordinary_mode() -> Iterator[None]:
    """A run on cuda switches deterministic algorithms on, for its process."""
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def there() -> Iterator[PretendedDevice]:
    with PretendedDevice() as device:
        yield device


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_a_run_on_the_device_has_the_bits_of_the_cpu(
    options: tuple[str, ...],
    dtype: str,
    configure: Callable[..., Any],
    io_in: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ordinary_mode: None,
) -> None:
    config = configure(options[0], *SHORT, *options[1:], f"dtype={dtype}")
    with PretendedDevice() as device:
        first = io_in(tmp_path, 1)
        assert train(replace(config, device="cuda"), first).kind == "interrupted"
        there = first.resumed()
        assert train(replace(config, device="cuda"), there).kind == "finished"
    assert device.operations["aten._fused_adamw_"] > 0
    assert all(
        type(tensor) is torch.Tensor for state, _ in there.checkpoints.values() for tensor in state.tensors.values()
    )

    monkeypatch.setattr(flat_pass, "fits", lambda weights, batch: False)
    monkeypatch.setattr(model, "attend", attention.attend_in_parts)
    monkeypatch.setattr(generate, "_by_floats", generate._by_whole_numbers)
    monkeypatch.setattr(generate, "_ROWS_AT_ONCE", 1 << 30)
    here = io_in(tmp_path)
    assert train(config, here).kind == "finished"
    assert there.history() == here.history()
    assert there.tables == here.tables
    assert there.final() == here.final()


@pytest.mark.parametrize(
    "operation",
    [
        lambda x, cpu: x + cpu,
        lambda x, cpu: torch.where(x > 0, x, cpu),
        lambda x, cpu: torch.cat((x, cpu)),
        lambda x, cpu: x @ cpu,
        lambda x, cpu: torch.index_select(x, 0, cpu.long()),
        lambda x, cpu: x.gather(0, cpu.long()),
        lambda x, cpu: cpu[x.long()],
        lambda x, cpu: cpu.add_(x.sum()),
        lambda x, cpu: cpu.__setitem__(cpu.long(), x),
        lambda x, cpu: x.__setitem__(cpu.long(), cpu),
        lambda x, cpu: torch.embedding(x[:, None], cpu.long()),
        lambda x, cpu: torch.stack([x.sum(), cpu.sum()]),
    ],
)
def test_tensors_of_two_devices_do_not_meet(there: PretendedDevice, operation: Callable[..., Any]) -> None:
    x, cpu = torch.ones(3, device="cuda"), torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        operation(x, cpu)
    with torch.inference_mode(), pytest.raises(RuntimeError, match="same device"):
        operation(x, cpu)


def test_what_cuda_allows_is_allowed(there: PretendedDevice) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], device="cuda")
    assert isinstance(x, Pretended) and x.device == DEVICE and str(x.device) == "cuda:0" and x.is_cuda
    assert (x * torch.tensor(2.0)).tolist() == [2.0, 4.0, 6.0]
    assert torch.where(x > 1, x, torch.tensor(0.0)).tolist() == [0.0, 2.0, 3.0]
    assert x[torch.tensor([2, 0])].tolist() == [3.0, 1.0]
    x[torch.tensor([True, False, True])] = torch.tensor(0.0)
    x[1:].fill_(5.0)
    assert x.tolist() == [0.0, 5.0, 5.0] and float(x.sum()) == 10.0 and bool((x[1] == 5).all())
    x.copy_(torch.ones(3))
    cpu = torch.zeros(3)
    cpu.copy_(x)
    assert cpu.tolist() == [1.0] * 3 and type(x.cpu()) is torch.Tensor
    assert x.to("cuda") is x and x.to(DEVICE, torch.float32) is x
    assert x.to("cuda", torch.float64).device == DEVICE and torch.zeros_like(x).new_ones(2).device == DEVICE


def test_numpy_reads_no_tensor_on_the_device(there: PretendedDevice) -> None:
    x = torch.ones(3, device="cuda")
    for read in (Pretended.numpy, np.asarray):
        with pytest.raises(TypeError, match="to numpy"):
            read(x)


def test_a_fused_optimiser_wants_its_step_count_on_the_device(there: PretendedDevice) -> None:
    parameter = torch.zeros(3, device="cuda").requires_grad_()
    optimiser = torch.optim.AdamW([parameter], fused=True)
    parameter.sum().backward()
    optimiser.step()
    optimiser.state[parameter]["step"] = torch.tensor(1.0)
    with pytest.raises(RuntimeError, match="state_steps"):
        optimiser.step()


def test_the_device_is_gone_afterwards() -> None:
    with PretendedDevice():
        torch.ones(3, device="cuda")
    assert type(torch.tensor([1.0])) is torch.Tensor
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError)):
            torch.ones(3, device="cuda")
