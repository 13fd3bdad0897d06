"""Measure what one attempt of a run uses: CPU time, memory, and where the machine tells it, energy and GPUs.

    meter = Meter()
    ...                    # the run, in this process and its children
    meter.facts()          # {"seconds": 61.2, "cpu_seconds": 58.9, "cpu_kwh": 0.0004, ...}

What cannot be read is absent, never 0. A machine tells the energy of its processors (RAPL, mostly to root alone) for
all programs together: a run is given the part that its CPU time has of the CPU time of the whole machine.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from plat.processes.gpu_meter import JOULES_PER_KWH, GpuMeter

RAPL = Path("/sys/class/powercap")
FIRST, EVERY = 1.0, 5.0  # seconds to the first sample, and between two; a counter of RAPL starts anew after minutes


class Meter:
    """Measure from now on. `facts` ends it. `rapl`: the folder with the energy counters of the processors."""

    def __init__(self, rapl: Path = RAPL) -> None:
        self._started, self._cpu, self._children_peak = time.monotonic(), _cpu_seconds(), _peak_of_children()
        self._rapl, self._gpus = Rapl(rapl), GpuMeter()
        self._busy = _busy_seconds() if self._rapl else 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        if self._rapl or self._gpus:
            self._thread.start()

    def _sample(self) -> None:
        wait = FIRST
        while not self._is_over.wait(wait):
            self._rapl.read()
            if self._gpus:
                self._gpus.sample(_own_processes())
            wait = EVERY

    def facts(self) -> dict[str, Any]:
        """Return seconds, cpu_seconds, cpu_kwh where it is known, and what `GpuMeter.facts` returns.

        cpu_seconds  of this process and the ended programs that it started, all threads
        """
        self._is_over.set()
        if self._thread.ident is not None:
            self._thread.join()
        cpu = _cpu_seconds() - self._cpu
        facts: dict[str, Any] = {
            "seconds": round(time.monotonic() - self._started, 3),
            "cpu_seconds": round(cpu, 3),
            **self._gpus.facts(),
        }
        joules, busy = self._rapl.read(), _busy_seconds() - self._busy if self._rapl else 0.0
        if joules is not None and busy > 0:
            facts["cpu_kwh"] = joules * min(1.0, cpu / busy) / JOULES_PER_KWH
        return facts

    def hardware(self) -> dict[str, Any]:
        """Return "peak_mb", the peak memory in MiB, and "gpu", the name of the GPU, if torch used one in this process.

        The peak is that of this process or of a program that it started, whichever is larger.
        """
        peak, of_children = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, _peak_of_children()
        if of_children > self._children_peak:  # else the largest program may be one of an earlier run
            peak = max(peak, of_children)
        facts: dict[str, Any] = {"peak_mb": peak // 1024}
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():
            facts["gpu"] = torch.cuda.get_device_name()
        return facts


class Rapl:
    """Add up the energy of the processors and their memory. An object is false where it cannot be read."""

    def __init__(self, folder: Path) -> None:
        self._last: dict[Path, int] = {}  # zone -> µJ
        self._joules = 0.0
        for zone in sorted(folder.glob("intel-rapl:*")):  # processors of AMD have the same name
            name = _text(zone / "name")
            if (name.startswith("package") or name == "dram") and (counter := _counter(zone)) is not None:
                self._last[zone] = counter

    def __bool__(self) -> bool:
        return bool(self._last)

    def read(self) -> float | None:
        """Return the joules since the start; None if a counter could not be read."""
        for zone, before in self._last.items():
            now, largest = _counter(zone), _text(zone / "max_energy_range_uj")
            if now is None or (now < before and not largest.isdecimal()):
                self._last = {}
                return None
            if now < before:  # the counter has started anew
                before -= int(largest)
            self._joules += (now - before) / 1e6
            self._last[zone] = now
        return self._joules if self._last else None


def _counter(zone: Path) -> int | None:
    text = _text(zone / "energy_uj")
    return int(text) if text.isdecimal() else None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _cpu_seconds() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _peak_of_children() -> int:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def _busy_seconds() -> float:
    """Return the CPU time of all programs of this machine since it started."""
    import psutil

    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _own_processes() -> set[int]:
    import psutil

    return {os.getpid(), *(child.pid for child in psutil.Process().children(recursive=True))}
