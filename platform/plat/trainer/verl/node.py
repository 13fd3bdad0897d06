"""`python -m plat.trainer.verl.node ADDRESS CPUS [GPUS]` joins this machine to the Ray of a run, until it is ended.

GPUS is stated for a machine without any, where they are slots for training processes. Ray's files lie in a scratch
folder of this machine, which is removed in the end, as those of the run itself do (see `scratch` and `guard`).
"""

from __future__ import annotations

import os
import subprocess
import sys

from plat.trainer.private_ray import join_private_ray
from plat.trainer.verl.guard import guarded
from plat.trainer.verl.scratch import scratch_folder

OBJECT_STORE = 300_000_000  # bytes of shared memory for a Ray of one's own on the CPU


def ray_resources(cpus: int, slots: int | None) -> list[str]:
    """Options of `ray start`; without `slots` Ray counts the GPUs that it sees."""
    options = [f"--num-cpus={cpus}", "--log-color=false"]
    if slots is not None:
        options += [f"--num-gpus={slots}", f"--object-store-memory={OBJECT_STORE}"]
    return options


def main(address: str, cpus: int, slots: int | None) -> int:
    """Join, and stay as long as Ray does; the exit code of `ray start`."""
    join_private_ray()
    if slots is not None:  # Ray wants to see the GPUs that it is told of
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(slots)))
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", f"--address={address}"]
    with guarded(scratch_folder()) as folder:
        return subprocess.call([*command, f"--temp-dir={folder}", *ray_resources(cpus, slots)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None))
