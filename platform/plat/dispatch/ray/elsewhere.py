"""`python -m plat.dispatch.ray.elsewhere ADDRESS GROUP COUNT COMMAND...` runs a command on other nodes of a task.

A task on several nodes has this placement group (pickled, in base64) with one bundle per node; bundle 0 belongs to the
trial. The command runs in COUNT others until standard input is closed, this program ends, or one command ends (see
`plat.trainer.allocation`). The exit code is that of the command that ended, 1 if its node was lost, else 0.
"""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from plat.processes.until_closed import closing_of_stdin

TICK = 0.5  # seconds between two checks of the commands
NOT_PASSED = ("RAY_", "CUDA_VISIBLE_DEVICES")  # set by Ray for each of its processes


class Elsewhere:
    """An actor on another node; its command ends with it, because the command's standard input then closes."""

    def run(self, command: list[str], environment: Mapping[str, str], directory: str) -> int:
        """Run the command and return its exit code."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd=directory if os.path.isdir(directory) else None,
        )
        return process.wait()


def run_on_others(address: str, group: str, count: int, command: list[str], closed: threading.Event) -> int:
    """Run the command on `count` other nodes of the placement group until `closed` is set or one command ends.

    Returns the exit code of the command that ended, 1 if its node was lost, 0 if `closed` was set first.
    """
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address=address)
    placement = pickle.loads(base64.b64decode(group))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(NOT_PASSED)}
    results: list[Any] = []
    actors: list[Any] = []
    for index in range(1, count + 1):
        bundle = placement.bundle_specs[index]
        actor = ray.remote(Elsewhere).options(
            num_cpus=bundle.get("CPU", 0),
            num_gpus=bundle.get("GPU", 0),
            memory=bundle.get("memory") or None,
            scheduling_strategy=PlacementGroupSchedulingStrategy(placement, placement_group_bundle_index=index),
        )
        actors.append(actor.remote())
        results.append(actors[-1].run.remote(command, environment, os.getcwd()))
    ended: list[Any] = []
    while not ended and not closed.is_set():
        ended, _ = ray.wait(results, timeout=TICK)
    code = 0
    if ended:
        try:
            code = int(ray.get(ended[0]))
        except RayError as error:
            print(f"a node of the run was lost: {error}", flush=True)
            code = 1
    for actor in actors:
        ray.kill(actor)
    ray.shutdown()
    return code


def main(address: str, group: str, count: str, *command: str) -> int:
    """Run the command until standard input is closed; return the exit code of `run_on_others`."""
    return run_on_others(address, group, int(count), list(command), closing_of_stdin())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
