"""The settings of this machine from `cluster.KEY=VALUE`: `gpus` alone. It is not part of a run's identity."""

from __future__ import annotations

from collections.abc import Sequence

from plat.dispatch.gpu_setting import gpus_per_run
from plat.errors import SpecError

GPUS = "cluster.gpus"


def read_gpus(cluster: Sequence[str]) -> float:
    """Return the GPUs of each run, or the share of one; 0: what its trainer states. SpecError for another setting."""
    gpus = 0.0
    for text in cluster:
        key, _, value = text.partition("=")
        if key != GPUS:
            raise SpecError(
                f"{text} chooses where a scheduler executes runs, and this machine has no scheduler",
                where="the command line",
                fix=f"add --on slurm (or another scheduler), or leave it out; this machine takes {GPUS}=N only",
            )
        gpus = gpus_per_run(value, f"the command line ({text})")
    return gpus
