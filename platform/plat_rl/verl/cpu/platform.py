"""verl's platform for a machine without accelerators: the device is the CPU, and Ray's GPUs are declared slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import psutil
import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


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
