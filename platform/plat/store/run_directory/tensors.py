"""Tensors by name as the bytes of a safetensors file, and back as they went in.

Arrays come back as numpy arrays when all of them were (then torch is never imported), as torch tensors otherwise.
"""

from __future__ import annotations

from typing import Any


def to_bytes(tensors: dict[str, Any]) -> tuple[bytes, str]:
    """The content of a safetensors file, and the framework to read it with: "numpy" or "torch"."""
    import numpy

    if all(isinstance(value, numpy.ndarray) for value in tensors.values()):
        import safetensors.numpy

        return safetensors.numpy.save({k: numpy.asarray(v, order="C") for k, v in tensors.items()}), "numpy"
    import safetensors.torch
    import torch

    # Clones: safetensors refuses tensors that share memory (tied embeddings, views of one optimiser buffer).
    return safetensors.torch.save(
        {key: torch.as_tensor(value).detach().to("cpu").contiguous().clone() for key, value in tensors.items()}
    ), "torch"


def from_bytes(data: bytes, framework: str) -> dict[str, Any]:
    """What `to_bytes` was given."""
    if framework == "numpy":
        import safetensors.numpy

        return safetensors.numpy.load(data)
    import safetensors.torch

    return safetensors.torch.load(data)
