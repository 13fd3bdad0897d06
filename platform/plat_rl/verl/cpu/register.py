"""Entry module that verl imports at its start: registers platform and rollout engine, and applies the repairs."""

from __future__ import annotations

import os

from verl.plugin.platform.platform_manager import get_platform, set_platform
from verl.workers.rollout import base, replica

from plat_rl.verl.cpu.platform import CpuPlatform
from plat_rl.verl.cpu.repairs import repair


def _replica() -> type:
    from plat_rl.verl.cpu.cpu_rollout import HFReplica

    return HFReplica


base._ROLLOUT_REGISTRY["hf", "async"] = "plat_rl.verl.cpu.cpu_rollout.HFAdapter"  # rollout.name=hf
replica.RolloutReplicaRegistry.register("hf", _replica)
ON_CPU = os.environ.get("VERL_PLATFORM") == "cpu"
repair(ON_CPU)
if ON_CPU and get_platform().device_name != "cpu":
    set_platform(CpuPlatform())  # this process imported verl before the variable was set
