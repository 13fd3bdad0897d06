"""Record the numerics of a process: hardware, libraries and variables that change the last bits of a result.

They are not part of a run's id, so every attempt records them, and comparisons of runs report differences.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# Variables of PyTorch and the libraries below it that choose instructions, kernels or precision.
VARIABLES = (
    "ATEN_CPU_CAPABILITY", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA", "DNNL_DEFAULT_FPMATH_MODE", "ONEDNN_DEFAULT_FPMATH_MODE", "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES", "GLIBC_TUNABLES", "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUBLAS_WORKSPACE_CONFIG",
)  # fmt: skip
LIBRARIES = ("torch", "numpy")
# The flags of /proc/cpuinfo that PyTorch asks for, the fastest kernels first.
INSTRUCTIONS = {"avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "fma"}, "avx2": {"avx2", "fma"}}


def numerics() -> dict[str, Any]:
    """Return the numerics of this process.

    They are `cpu` (model), `instructions` ("avx512", "avx2", else the architecture), `libraries` (name -> version) and
    `variables` (those of VARIABLES that are set). A second call is quick, also in a forked process.
    """
    model, flags = _processor()
    return {
        "cpu": model,
        "instructions": next((name for name, needed in INSTRUCTIONS.items() if needed <= flags), platform.machine()),
        "libraries": {name: number for name in LIBRARIES if (number := _version(name))},
        "variables": {name: os.environ[name] for name in VARIABLES if os.environ.get(name)},
    }


def numerics_in_words(facts: Mapping[str, Any]) -> str:
    """Format numerics: `Intel Xeon (avx512), torch 2.13.0, numpy 2.4.6, MKL_CBWR=COMPATIBLE`; "" if there are none."""
    if not facts:
        return ""
    libraries = (f"{name} {number}" for name, number in (facts.get("libraries") or {}).items())
    variables = (f"{name}={value}" for name, value in (facts.get("variables") or {}).items())
    return ", ".join([f"{facts.get('cpu', '?')} ({facts.get('instructions', '?')})", *libraries, *variables])


def numerics_of_run(attempts: Iterable[Mapping[str, Any]]) -> str:
    """Format the distinct numerics of a run's attempts (a dict each, the oldest first), joined by "; then "."""
    words = (numerics_in_words(facts) for facts in attempts if isinstance(facts, Mapping))
    return "; then ".join(dict.fromkeys(text for text in words if text))


@lru_cache(maxsize=1)
def _processor() -> tuple[str, set[str]]:
    """Return the model of the processor, and its flags (empty outside Linux)."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().partition("\n\n")[0]
    except OSError:
        first = ""
    lines = dict(line.partition(":")[::2] for line in first.splitlines())
    facts = {name.strip(): value.strip() for name, value in lines.items()}
    return facts.get("model name") or platform.processor() or platform.machine(), set(facts.get("flags", "").split())


@lru_cache(maxsize=8)
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
