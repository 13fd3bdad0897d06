"""Run verl on CPU cores, or on GPUs without vLLM: a platform, a rollout engine, and replacements for code of verl.

verl imports `register` in each of its processes, because `VERL_USE_EXTERNAL_MODULES` names it. It registers

    platform `cpu`   devices are CPU cores, processes communicate with gloo (`platform`)
    rollout  `hf`    transformers generates, in batches with a key-value cache, on the CPU or on a GPU (`cpu_rollout`,
                     `generation`)

and replaces functions that need a GPU or flash-attention (`repairs`). verl's installed files stay unchanged.
`ENVIRONMENT` has the variables that every process of a run on the CPU needs before it imports verl; on a GPU the
rollout `hf` needs only the first.
"""

from __future__ import annotations

ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "plat_rl.verl.cpu.register",
    "VERL_PLATFORM": "cpu",
    "VERL_ENGINE_DEVICE": "cuda",  # verl has no FSDP engine under the name cpu; the one for CUDA computes anywhere
}
