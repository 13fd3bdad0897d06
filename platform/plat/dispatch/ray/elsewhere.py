"""`python -m plat.dispatch.ray.elsewhere ADDRESS GROUP COUNT COMMAND...` runs a command on other nodes of a task.

A task on several nodes has a placement group of that name, with a bundle for each node; bundle 0 is the task's own. The
command is run in so many of the others until the standard input of this program is closed, this program is ended, or
one of the commands ends (see `plat.trainer.allocation`). The exit code is that of the command that ended, 1 when its
node was lost, else 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from plat.dispatch.ray.bridge import NAMESPACE

TICK = 0.5  # seconds between two checks of the commands
NOT_PASSED = ("RAY_", "CUDA_VISIBLE_DEVICES")  # what Ray sets for each of its processes


class Elsewhere:
    """An actor on one of the nodes; its command ends with it, because its standard input closes then."""

    def run(self, command: list[str], environment: Mapping[str, str], directory: str) -> int:
        """The exit code of the command."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            env={**os.environ, **environment},
            cwd=directory if os.path.isdir(directory) else None,
        )
        return process.wait()


def run_on_others(address: str, group: str, count: int, command: list[str], closed: threading.Event) -> int:
    """Run the command on so many other nodes, until `closed` is set or one of them ends; the exit code."""
    import ray
    from ray.exceptions import RayError
    from ray.util import get_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    ray.init(address=address, namespace=NAMESPACE)
    placement = get_placement_group(group)
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
    """Run the command until standard input is closed; the exit code."""
    closed = threading.Event()

    def wait_until_closed() -> None:
        while sys.stdin.buffer.read(4096):
            pass
        closed.set()

    threading.Thread(target=wait_until_closed, daemon=True).start()
    return run_on_others(address, group, int(count), list(command), closed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
