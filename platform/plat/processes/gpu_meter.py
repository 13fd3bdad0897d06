"""Measure the load, memory and energy of the GPUs that a run has, through NVIDIA's management library (NVML)."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Set
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20
JOULES_PER_KWH = 3.6e6


@dataclass
class _Gpu:
    """What was seen of one GPU. `energy`: mJ at the start, None where the GPU does not count it."""

    handle: Any
    is_allotted: bool
    energy: int | None
    loads: list[int] = field(default_factory=list)  # percent, one per sample
    peak: int = 0  # bytes
    is_used: bool = False  # a process of the run was on it
    is_shared: bool = False  # so was another process


class GpuMeter:
    """Measure the GPUs in CUDA_VISIBLE_DEVICES; where it is not set, those on which processes of the run are seen.

    A GPU on which other processes are seen, too, gives no numbers, because they would be those of all.
    """

    def __init__(self) -> None:
        self._gpus = _gpus()

    def __bool__(self) -> bool:
        return bool(self._gpus)

    def sample(self, own: Set[int]) -> None:
        """Read load and memory of each GPU now. `own`: the ids of the run's processes."""
        import psutil
        import pynvml

        for gpu in self._gpus:
            with contextlib.suppress(pynvml.NVMLError):
                there = {process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(gpu.handle)}
                gpu.is_used |= bool(there & own)
                # a container sees the numbers that its host gives to processes, which name nothing inside
                gpu.is_shared |= any(psutil.pid_exists(pid) for pid in there - own)
                gpu.loads.append(pynvml.nvmlDeviceGetUtilizationRates(gpu.handle).gpu)
                gpu.peak = max(gpu.peak, pynvml.nvmlDeviceGetMemoryInfo(gpu.handle).used)

    def facts(self) -> dict[str, Any]:
        """Return what was measured; {} without a GPU of the run.

        gpus         their number
        gpu_percent  mean load, 0 to 100
        gpu_peak_mb  largest memory of one of them, in MiB
        gpu_kwh      their energy; absent if one does not count it
        gpu_shared   True, in the place of these three, if other processes were on one of them
        """
        gpus = [gpu for gpu in self._gpus if gpu.is_allotted or gpu.is_used]
        if not gpus:
            return {}
        facts: dict[str, Any] = {"gpus": len(gpus)}
        if any(gpu.is_shared for gpu in gpus):
            return facts | {"gpu_shared": True}
        if loads := [load for gpu in gpus for load in gpu.loads]:
            facts |= {"gpu_percent": round(sum(loads) / len(loads), 1), "gpu_peak_mb": max(g.peak for g in gpus) // MIB}
        spent = [_energy(gpu.handle, gpu.energy) for gpu in gpus]
        if None not in spent:
            facts["gpu_kwh"] = sum(filter(None, spent)) / 1000 / JOULES_PER_KWH
        return facts


def _gpus() -> list[_Gpu]:
    """Return the GPUs that this process may use; [] without the driver of NVIDIA."""
    try:
        ctypes.CDLL("libnvidia-ml.so.1")  # without the driver, this is faster than the import
    except OSError:
        return []
    import pynvml

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        if visible is None:
            chosen = handles
        else:
            chosen = [handle for name in visible.split(",") if (handle := _named(name.strip(), handles)) is not None]
        return [_Gpu(handle, visible is not None, _energy(handle, 0)) for handle in chosen]
    except pynvml.NVMLError:
        return []


def _named(name: str, handles: list[Any]) -> Any:
    """Return the GPU that CUDA calls so, or None: a part of one (MIG), or one whose number says nothing here.

    CUDA numbers the GPUs by their speed, NVML by their place; both agree for equal GPUs.
    """
    import pynvml

    if name.startswith("GPU-"):
        found = [handle for handle in handles if pynvml.nvmlDeviceGetUUID(handle).startswith(name)]
        return found[0] if len(found) == 1 else None
    kinds = {pynvml.nvmlDeviceGetName(handle) for handle in handles}
    agree = len(kinds) == 1 or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    return handles[int(name)] if agree and name.isdecimal() and int(name) < len(handles) else None


def _energy(handle: Any, since: int | None) -> int | None:
    """Return the energy in mJ since the counter stood at `since`; None where the GPU has no counter."""
    import pynvml

    if since is None:
        return None
    try:
        return int(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) - since
    except pynvml.NVMLError:
        return None
