"""What runs the steps of the kit: the device, its driver and memory, and the versions of packages."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any


def machine(device: str) -> dict[str, Any]:
    """Return what runs the steps: the device's name, its driver and memory, cores, and the version of Python."""
    facts: dict[str, Any] = {"device": device, "cores": os.cpu_count(), "python": sys.version.split()[0]}
    if device == "cuda":
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        try:
            answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=True).stdout
            name, driver, memory = (word.strip() for word in answer.splitlines()[0].split(","))
            facts |= {"name": name, "driver": driver, "memory": memory}
        except (OSError, subprocess.SubprocessError, ValueError, IndexError):
            facts["problem"] = "nvidia-smi names no GPU"
    return facts


def versions(environment: Mapping[str, str]) -> str:
    """Return the versions of the packages that decide what is measured."""
    found = []
    for name in ("torch", "transformers", "plat", "ray", "verl"):
        ask = [sys.executable, "-c", f"import importlib.metadata as m; print(m.version({name!r}))"]
        if answer := subprocess.run(ask, capture_output=True, text=True, env=environment).stdout.strip():
            found.append(f"{name} {answer}")
    return ", ".join(found)
