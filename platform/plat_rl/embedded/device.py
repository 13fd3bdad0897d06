"""How a run computes on its device: with which threads and, on a GPU, with the same bits each time."""

from __future__ import annotations

import os

import torch

from plat_rl.run_config import RunConfig


def set_up(config: RunConfig) -> None:
    """Prepare this process to compute a run of this config. Call it before the first tensor is made on the device.

    On a GPU, operations take deterministic forms, so that a resumed run has the bits of an uninterrupted one; one that
    has none prints a warning. Products of float32 have its full precision, also where TORCH_ALLOW_TF32_CUBLAS_OVERRIDE
    asks for less. (NVIDIA_TF32_OVERRIDE reaches cuBLAS itself; a run records both.)
    """
    torch.set_num_threads(config.threads)
    if config.device == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.set_float32_matmul_precision("highest")
