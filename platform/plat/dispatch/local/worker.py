"""Execute jobs in a process forked from the worker server: one, or several of a trainer that allows it.

A failure ends only this process and the processes it has started. If the server dies, the kernel sends SIGTERM: a run
then saves a checkpoint and stops, a preparation just dies.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import time
import traceback
from pathlib import Path
from typing import Any

from plat.dispatch.local.job_processes import write_result
from plat.plugins.plugin_code import read_files_again
from plat.processes.own_process import forget_peak_memory, output_to, work_for_command
from plat.processes.process_tree import adopt_orphans, signal_when_parent_ends
from plat.runner.execution import execute
from plat.runner.failures import classify
from plat.runner.training import prepare
from plat.store.coordination.preparations import announced
from plat.store.disk.durable import append_line
from plat.store.home import Home
from plat.store.run_directory.lease import LeaseHeld
from plat.words.outcomes import FINISHED

WORTH_NOTING = 1.0  # seconds; a cached preparation takes less


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Execute a job and return its result, which goes to the dispatcher as JSON.

    {"outcome", "reason"}, or {"held": "live" | "unknown", "reason"} if another process holds the run. An exception of
    the job is not raised: it becomes the outcome.
    """
    home = Home(Path(request["home"]))
    if request["kind"] == "prepare":
        return _prepare(home, request)
    try:
        return {"outcome": execute(home, request["run_id"], steal=request["steal"]), "reason": ""}
    except LeaseHeld as error:
        return {"held": error.state, "reason": error.what}
    except BaseException as error:
        outcome, reason = classify(error)
        return {"outcome": outcome, "reason": reason}


def work_on(request: dict[str, Any], requests: int | None, results: int) -> None:
    """Execute a job, and further ones for as long as each is finished and the server sends another.

    requests  descriptor of the pipe with further jobs, lines of JSON; None: there are none
    results   descriptor of the pipe for the results
    """
    with open(os.devnull if requests is None else requests, "rb") as further:
        while True:
            result = work(request)
            write_result(results, result)
            if not may_go_on(result) or not (line := further.readline()):
                return
            request = json.loads(line)
            read_files_again()
            forget_peak_memory()


def may_go_on(result: dict[str, Any]) -> bool:
    """Return True if the worker may execute a further job after this result of `work`."""
    return result.get("outcome") == FINISHED


def _prepare(home: Home, request: dict[str, Any]) -> dict[str, Any]:
    log = Path(request["log"])
    started = time.monotonic()
    with announced(home, request["job"], request["title"]), output_to(log):
        try:
            prepare(home, request["trainer"], request["config"], request["threads"])
        except BaseException as error:
            traceback.print_exc()
            outcome, reason = classify(error)
            return {"outcome": outcome, "reason": reason}
    wall = time.monotonic() - started
    if wall > WORTH_NOTING:
        with contextlib.suppress(OSError):
            line = {"time": time.time(), "prepare": request["job"], "title": request["title"], "wall": round(wall, 3)}
            append_line(home.history, line)
    return {"outcome": FINISHED, "reason": ""}


def become_worker(server: int, command: int | None) -> None:
    """Set up a freshly forked process: process group, signals, no core dumps, and SIGTERM when the server ends.

    server   process id of the worker server; this process exits if that is no longer its parent
    command  pidfd of the command for which the server works; None if unknown
    """
    work_for_command(command)
    os.setpgid(0, 0)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != server:  # it died before the request above
        os._exit(1)
    adopt_orphans()


def end_group() -> None:
    """Send SIGTERM to the process group that this worker leads, but ignore it here; the server kills the rest."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
