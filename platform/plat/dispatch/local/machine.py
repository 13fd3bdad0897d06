"""What this machine has, found out without importing anything heavy: GPUs, how often memory ran out."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from plat.cores import usable_cores as usable_cores

THREAD_VARIABLES = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip


def gpus() -> list[str]:
    """What CUDA_VISIBLE_DEVICES may name here, one entry a device; [] without GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    if shutil.which("nvidia-smi"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=True).stdout.decode()
            return [str(i) for i, line in enumerate(x for x in listed.splitlines() if x.startswith("GPU"))]
    devices = [path.name for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(i) for i in range(len(devices))]


def oom_kills() -> int | None:
    """How many processes the kernel has killed for lack of memory: of our control group, else of the machine."""
    for path in _oom_counters():
        with contextlib.suppress(OSError, ValueError):
            for line in path.read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    return None


def _oom_counters() -> list[Path]:
    counters = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, place = line.split(":", 2)
            if number == "0":
                counters.append(Path(f"/sys/fs/cgroup{place}") / "memory.events")
            elif "memory" in controllers.split(","):
                counters.append(Path(f"/sys/fs/cgroup/memory{place}") / "memory.oom_control")
    return [*counters, Path("/proc/vmstat")]


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that keep every numerical library at this many threads; read when the library is loaded."""
    return {name: str(threads) for name in THREAD_VARIABLES}
