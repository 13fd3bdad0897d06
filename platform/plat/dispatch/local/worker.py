"""One job in a process of its own, forked from the worker server.

Promised: whatever happens in here ends this process, and what it has started, only. It cannot outlive the server
unseen: when the server dies, the kernel sends SIGTERM here, on which a run saves a checkpoint and stops (a preparation
just dies).
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
import traceback
from pathlib import Path
from typing import Any

from plat.errors import PlatError
from plat.outcomes import FINISHED
from plat.runner.execution import execute
from plat.runner.failures import classify
from plat.runner.process import Command, output_to
from plat.runner.process_tree import adopt_orphans, signal_when_parent_ends
from plat.runner.training import prepare
from plat.store.durable import append_line
from plat.store.home import Home
from plat.store.preparations import announced
from plat.store.run_directory.lease import LeaseHeld

WORTH_NOTING = 1.0  # seconds; a preparation that was cached is quicker


def work(request: dict[str, Any]) -> dict[str, Any]:
    """Do a job; what is returned goes back to the dispatcher as JSON.

    {"outcome", "reason"}, or {"held": "live" | "unknown", "reason"} when the run belongs to somebody else.
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
        return {"outcome": outcome, "reason": reason, "error": _words(error)}


def _prepare(home: Home, request: dict[str, Any]) -> dict[str, Any]:
    log = Path(request["log"])
    started = time.monotonic()
    with announced(home, request["job"], request["title"]), output_to(log):
        try:
            prepare(home, request["trainer"], request["config"], request["threads"])
        except BaseException as error:
            traceback.print_exc()
            outcome, reason = classify(error)
            return {"outcome": outcome, "reason": reason, "error": _words(error)}
    wall = time.monotonic() - started
    if wall > WORTH_NOTING:
        with contextlib.suppress(OSError):
            line = {"time": time.time(), "prepare": request["job"], "title": request["title"], "wall": round(wall, 3)}
            append_line(home.history, line)
    return {"outcome": FINISHED, "reason": ""}


def _words(error: BaseException) -> str:
    return error.render() if isinstance(error, PlatError) else f"{type(error).__name__}: {error}"


def become_worker(server: int, command: int | None) -> None:
    """Set up a freshly forked process: a process group, signals, no core dumps, and an end when the server ends.

    command  a handle of the process for which the server works, None where it has none
    """
    Command.handle = command
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
    if os.getppid() != server:  # it died before we asked
        os._exit(1)
    adopt_orphans()


def end_group() -> None:
    """Ask what this process has started to end; the server, where it is still there, kills what is left."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
