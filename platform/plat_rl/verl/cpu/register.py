"""Entry module that verl imports at its start: registers platform and rollout engine, and applies the repairs."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
import torch.nn.functional as F
from torch import Tensor
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry, get_platform, set_platform
from verl.workers.rollout import base, replica

# Replace functions of verl that need a GPU or flash-attention, while verl is being imported.
#
# On the CPU only:
#
#     process group      verl asks for the backend `cpu:gloo,<device>:<backend>`, which names the CPU twice
#     offload            verl keeps the reference policy in pinned memory, which needs a GPU
#
# On every device:
#
#     critic             verl loads it with flash_attention_2, whatever the model's config says
#     label log-probs    without flash-attention verl computes them token by token, some 60 us each; here in chunks.
#                        With flash-attention verl does not call this function
#
# `test_compatibility` shows which repairs no longer fit a newer verl.

CHUNK = 2048  # tokens whose log-probabilities over the vocabulary are in memory at once


def repair(on_cpu: bool) -> None:
    """Apply the repairs in this process; those of the CPU only if the device is the CPU."""
    from verl.utils import model, torch_functional

    if on_cpu:
        use_gloo()
        do_not_pin()
    model.load_valuehead_model = load_critic
    torch_functional.logprobs_from_logits_v2 = label_log_probs


def use_gloo() -> None:
    """Replace `verl.utils.distributed.initialize_global_process_group_ray`: its default backend becomes gloo alone."""
    from verl.utils import distributed

    original = distributed.initialize_global_process_group_ray

    @functools.wraps(original)
    def initialize(timeout_second: float | None = None, backend: str | None = None) -> Any:
        return original(timeout_second=timeout_second, backend=backend or "gloo")

    distributed.initialize_global_process_group_ray = initialize


def do_not_pin() -> None:
    """Replace verl's `fsdp_utils.CPUOffloadPolicy` by a subclass that never pins memory.

    The subclass ignores `pin_memory=True`. torch's own class does not change.
    """
    import torch.distributed.fsdp as fsdp
    from verl.utils import fsdp_utils

    class UnpinnedOffloadPolicy(fsdp.CPUOffloadPolicy):
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    fsdp_utils.CPUOffloadPolicy = UnpinnedOffloadPolicy


def load_critic(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
    """Load a language model with a value head: one number per token, initially 0."""
    from transformers import AutoModelForTokenClassification

    critic = AutoModelForTokenClassification.from_pretrained(
        local_path, dtype=torch_dtype, config=model_config, trust_remote_code=trust_remote_code
    )
    with torch.no_grad():
        for parameter in critic.score.parameters():
            parameter.zero_()
    return critic


def label_log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """Return log softmax(logits (..., vocabulary)) at each label, in float32 or float64."""
    flat, chosen = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    parts = [
        F.log_softmax(part if part.dtype == torch.float64 else part.float(), -1).gather(-1, own[:, None])[:, 0]
        for part, own in zip(torch.split(flat, CHUNK), torch.split(chosen, CHUNK), strict=True)
    ]
    return torch.cat(parts).view(labels.shape)


# verl's platform for a machine without accelerators: the device is the CPU, and Ray's GPUs are declared slots.


def _always(value: Any = None) -> Callable[..., Any]:
    """Return a function, or method, that ignores its arguments and returns this value."""
    return lambda *arguments, **named: value


def _device_module() -> ModuleType:
    """Return a replacement, for the CPU, of the parts of `torch.cuda` that verl uses."""
    module = ModuleType("plat_cpu_device")
    memory = psutil.virtual_memory
    nothing = ("set_device", "synchronize", "empty_cache", "ipc_collect", "reset_peak_memory_stats")
    counters = ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved")
    vars(module).update(
        dict.fromkeys(nothing, _always()),
        **dict.fromkeys(counters, _always(0)),
        **dict.fromkeys(("current_device", "get_device_name"), _always("cpu")),
        is_available=_always(True),
        device_count=_always(1),
        mem_get_info=lambda device=None: (memory().available, memory().total),
        get_rng_state=lambda device=None: torch.get_rng_state(),
        set_rng_state=lambda state, device=None: torch.set_rng_state(state),
        current_stream=torch.cpu.current_stream,
        stream=torch.cpu.stream,
        Stream=torch.cpu.Stream,
    )
    return module


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):  # type: ignore[misc]
    """One device, the CPU. Functions for accelerators only (allocator, profiler, IPC) do nothing."""

    device_name = vendor_name = "cpu"
    device_module = _device_module()
    is_available = _always(True)
    is_platform_available = _always(False)  # chosen by name only; never detected automatically
    is_ipc_supported = _always(False)
    current_device = _always("cpu")  # verl passes it to `Tensor.to`
    device_count = _always(1)
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    ray_resource_name = _always("GPU")
    set_device = synchronize = set_allocator_settings = empty_cache = _always()
    profiler_start = profiler_stop = cudart = _always()

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def ray_noset_envvars(self) -> list[str]:
        return []


def _replica() -> type:
    from plat_rl.verl.cpu.cpu_rollout import HFReplica

    return HFReplica


base._ROLLOUT_REGISTRY["hf", "async"] = "plat_rl.verl.cpu.cpu_rollout.HFAdapter"  # rollout.name=hf
replica.RolloutReplicaRegistry.register("hf", _replica)
ON_CPU = os.environ.get("VERL_PLATFORM") == "cpu"
repair(ON_CPU)
if ON_CPU and get_platform().device_name != "cpu":
    set_platform(CpuPlatform())  # this process imported verl before the variable was set
