"""The process that talks to Ray: `python -m plat.dispatch.ray.bridge` answers requests, one JSON line each.

Ray's client prints, starts threads, and ends its process when the cluster is lost; a separate process confines this.
Its output goes to stderr, which is a log (see `bridge_client`). When its input is closed, a private Ray is ended after
its runs have saved.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

from plat.dispatch.ray.actor import TaskActor, group_options, groups, remove_group
from plat.dispatch.ray.ray_settings import LOCAL
from plat.processes import identification
from plat.processes.cores import usable_cores
from plat.store.coordination.submissions import Submission
from plat.trainer.private_ray import private_ray
from plat.words.outcomes import INTERRUPTED

NAMESPACE = "plat"
OBJECT_STORE = 80 * 2**20  # bytes; plat stores no objects in it
RESTARTS = 5  # by Ray, of an actor whose worker or node was lost


class Bridge:
    """Answer requests: each names a public method. An exception of the method is the answer's `error`."""

    def __init__(self) -> None:
        self._scratch: str | None = None
        self._private = contextlib.ExitStack()
        self._started: dict[str, tuple[Submission, int]] = {}
        self._suspects: set[str] = set()  # placement groups without an actor at the last look

    def connect(self, address: str, within: float) -> dict[str, Any]:
        """Connect to the cluster at `address`, or start a private Ray if it is LOCAL, tried for `within` seconds.

        Returns the keys "session", "address", "owner" and "nodes": of each node "cpus", "gpus" and "memory" (bytes).
        """
        os.environ.setdefault("RAY_raylet_start_wait_time_s", str(int(within)))
        os.environ.setdefault("RAY_agent_register_timeout_ms", str(int(1000 * within)))
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if address == LOCAL:
            self._private.enter_context(private_ray(nodes=1))  # before Ray is imported, and until this process ends
        import ray

        common = {
            "namespace": NAMESPACE,
            "log_to_driver": False,
            "configure_logging": False,
            "logging_level": logging.ERROR,
        }
        if address == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            self._start(within, common)
        else:
            ray.init(address=address, **common)
        context = ray.get_runtime_context()
        session = ray._private.worker.global_worker.gcs_client.cluster_id.hex()
        return {
            "session": session,
            "address": context.gcs_address,
            "owner": identification.this_process(),
            "nodes": [
                {"cpus": have.get("CPU", 0.0), "gpus": have.get("GPU", 0.0), "memory": have.get("memory", 0.0)}
                for have in (node["Resources"] for node in ray.nodes() if node["Alive"])
            ],
        }

    def _start(self, within: float, options: dict[str, Any]) -> None:
        """Start a private Ray, on loopback and without its dashboard. Retry for `within` seconds."""
        import ray

        ray._private.utils.get_dashboard_dependency_error = lambda: ImportError("the dashboard is not needed")
        until = time.monotonic() + within
        while not ray.is_initialized():
            self._scratch = tempfile.mkdtemp(prefix="plat-ray-", dir="/tmp")  # names of sockets must be short
            try:
                ray.init(
                    address=LOCAL,
                    num_cpus=usable_cores(),
                    include_dashboard=False,
                    object_store_memory=OBJECT_STORE,
                    _temp_dir=self._scratch,
                    **options,
                )
            except Exception:
                ray.shutdown()
                shutil.rmtree(self._scratch, ignore_errors=True)
                if time.monotonic() >= until:
                    raise

    def names(self) -> dict[str, Any]:
        """Return {"names": the actors that wait, run or restart}; remove groups that had no actor twice in a row."""
        from ray.util import list_named_actors

        before = groups()
        names = list_named_actors()
        self._remove_orphans(before - set(names))
        return {"names": names}

    def _remove_orphans(self, orphans: set[str]) -> None:
        """Remove placement groups whose actor was missing twice in a row: the first may not have been created yet."""
        for name in orphans & self._suspects:
            remove_group(name)
        self._suspects = orphans

    def start(self, tasks: list[dict[str, Any]]) -> dict[str, Any]:
        """Start an actor for each task; an existing actor stays as it is. Return {}.

        Keys of a task: name (of the actor), folder (of the submission), number (of the task in it), cpus, gpus, memory
        (bytes), nodes, environment and directory.
        """
        import ray
        from ray.exceptions import ActorAlreadyExistsError

        actor = ray.remote(TaskActor)
        for task in tasks:
            self._started[task["name"]] = Submission(Path(task["folder"])), task["number"]
            place: dict[str, Any] = {}
            if task["nodes"] > 1:
                bundle = {"CPU": task["cpus"], "GPU": task["gpus"], "memory": task["memory"]}
                asked = {name: amount for name, amount in bundle.items() if amount}
                place = group_options(task["name"], task["nodes"], asked)
            options = actor.options(
                name=task["name"],
                lifetime="detached",
                num_cpus=task["cpus"],
                num_gpus=task["gpus"],
                memory=task["memory"] or None,
                max_restarts=RESTARTS,
                **place,
            )
            with contextlib.suppress(ActorAlreadyExistsError):
                options.remote(task["folder"], task["number"], task["environment"], task["directory"], task["nodes"])
        return {}

    def stop(self, names: list[str]) -> dict[str, Any]:
        """Ask actors of this bridge to let their runs save and stop; end those that have not begun. Return {}."""
        import ray

        for name in names:
            if name not in self._started:
                continue
            submission, number = self._started[name]
            with contextlib.suppress(ValueError):  # it has ended
                actor = ray.get_actor(name)
                if submission.starts(number).exists():
                    actor.stop.remote()
                else:
                    ray.kill(actor, no_restart=True)
                    remove_group(name)
                    submission.note_over(INTERRUPTED, "asked to stop before it began", number)
        return {}

    def kill(self, names: list[str]) -> dict[str, Any]:
        """End actors for good; Ray does not restart them. Return {}."""
        import ray

        for name in names:
            with contextlib.suppress(ValueError):
                ray.kill(ray.get_actor(name), no_restart=True)
            remove_group(name)
        return {}

    def close(self) -> None:
        """End a private Ray after its runs have saved; leave any other cluster as it is."""
        import ray

        if self._scratch is not None and ray.is_initialized():
            names = self.names()["names"]
            self.stop(names)
            while self.names()["names"]:
                time.sleep(0.2)
        ray.shutdown()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


def serve(requests: IO[str], answers: IO[str]) -> None:
    """Answer requests, one JSON line each, until `requests` is closed."""
    bridge = Bridge()
    try:
        for line in requests:
            request = json.loads(line)
            operation = request.pop("op")
            try:
                answer = getattr(bridge, operation)(**request)
            except Exception as error:
                logging.exception("%s failed", operation)
                answer = {"error": f"{type(error).__name__}: {error}"}
            print(json.dumps(answer), file=answers, flush=True)
    finally:
        bridge.close()


def main() -> None:
    """Answer the requests on standard input; answers go to standard output, all other output to standard error."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
