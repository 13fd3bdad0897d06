"""verl on CPU cores: a platform, a rollout engine, and repairs of what verl takes for granted on a GPU.

verl imports this package in each of its processes, because `VERL_USE_EXTERNAL_MODULES` names it. It registers

    platform `cpu`   devices are CPU cores, processes talk over gloo (`platform`)
    rollout  `hf`    transformers generates, in batches with a cache of keys and values (`rollout`, `generation`)

and mends functions of verl that need a GPU or flash-attention (`repairs`). Nothing of verl's installed files changes.
Production uses the rollout `vllm` on verl's own platform and does not load this package. `ENVIRONMENT` are the
variables that every process of such a run needs, before it imports verl.
"""

from __future__ import annotations

ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "plat.trainer.verl.cpu.register",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # verl has no FSDP engine under the name cpu; the one for CUDA computes anywhere
}
