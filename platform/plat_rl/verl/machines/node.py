"""`python -m plat_rl.verl.machines.node ADDRESS CPUS [GPUS]` joins this machine to the Ray of a run.

GPUS is given for a machine without any, as slots for training processes. Ray's files lie in a scratch folder of this
machine, which is removed at the end, like that of the run (see `guard`).
"""

from __future__ import annotations

import os
import subprocess
import sys

from plat.trainer.private_ray import join_private_ray
from plat_rl.verl.machines.guard import guarded, scratch_folder

OBJECT_STORE = 300_000_000  # bytes of shared memory of a private Ray on the CPU


def main(address: str, cpus: int, slots: int | None) -> int:
    """Join the cluster, wait until `ray start` ends, and return its exit code (-N if signal N ended it)."""
    join_private_ray()
    resources = [f"--num-cpus={cpus}", "--log-color=false"]  # without slots, Ray counts the visible GPUs
    if slots is not None:
        resources += [f"--num-gpus={slots}", f"--object-store-memory={OBJECT_STORE}"]
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(slots)))  # Ray checks that they are visible
    command = [sys.executable, "-P", "-m", "ray.scripts.scripts", "start", "--block", f"--address={address}"]
    with guarded(scratch_folder()) as folder:
        return subprocess.call([*command, f"--temp-dir={folder}", *resources])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else None))
