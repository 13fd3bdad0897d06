"""The trusted process of a box: it forks a child for each test, watches it, and reports how it ended.

It gets descriptors, never the bytes of a test: the parent holds the other ends. It knows no expected output.
"""

from __future__ import annotations

import _socket
import array
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import time
from typing import Any

from plat_envs.sandbox.inside import confinement, untrusted
from plat_envs.sandbox.inside.confinement import confine

LARGEST_MESSAGE = 1 << 12
READY, STOP = b"ready", b"stop"
DESCRIPTORS = 5  # stdin, stdout, stderr, of a function its value, and the program
SCHEDULER_CLOCK = 2  # the kind of clock that counts what a process used, in nanoseconds
ALL_DESCRIPTORS = 4096  # more than the launcher ever opens


def main(root: str) -> None:
    """Serve the requests that come over descriptor 0 until it is closed. Never returns."""
    control = _socket.socket(fileno=0)
    _, (description,) = receive(control)
    with open(description, encoding="utf-8") as file:
        setup = json.load(file)
    libc = ctypes.CDLL(None, use_errno=True)
    rules = confinement.build_landlock_rules(libc, setup["readable"]) if setup["level"] == "landlock" else None
    untrusted.add_exit()
    gc.collect()
    gc.freeze()  # children share these objects
    control.send(READY)
    while True:
        message, descriptors = receive(control)
        if not message:
            os._exit(0)
        if message == STOP:  # it came too late: the child had ended
            continue
        confined, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            control.detach()
            program = become_the_program(libc, setup, rules, [*descriptors, theirs])
            untrusted.leave_no_trace(root)
            untrusted.execute(program["source"], program["function"])
        for descriptor in (*descriptors, theirs):
            os.close(descriptor)
        problem = os.read(confined, LARGEST_MESSAGE)  # written before the program begins
        os.close(confined)
        report = {
            **watch(control, pid, setup["limits"]["cpu_seconds"]),
            "problem": "" if problem == READY else problem.decode() or "no reason",
        }
        if setup["level"] == "limits_only":  # the other levels allow no further process
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        control.send(json.dumps(report).encode())


def receive(control: _socket.socket) -> tuple[bytes, list[int]]:
    """Return the next message with its descriptors; b"" if the parent is gone."""
    numbers = array.array("i")
    message, ancillary, _, _ = control.recvmsg(LARGEST_MESSAGE, _socket.CMSG_LEN(DESCRIPTORS * numbers.itemsize))
    for level, kind, data in ancillary:
        if level == _socket.SOL_SOCKET and kind == _socket.SCM_RIGHTS:
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return message, numbers.tolist()


def become_the_program(
    libc: ctypes.CDLL, setup: dict[str, Any], rules: int | None, descriptors: list[int]
) -> dict[str, Any]:
    """Take the descriptors of the test as 0, 1, 2 and perhaps 3, close all others, and give up every right.

    Returns the program. The last two descriptors are not for it: the file that it is in, and the one that tells the
    launcher that all rights are given up, or what went wrong.
    """
    wanted = [*descriptors, *([] if rules is None else [rules])]
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, len(wanted)) for descriptor in wanted]
    for position, descriptor in enumerate(high):
        os.dup2(descriptor, position)
    os.closerange(len(wanted), ALL_DESCRIPTORS)
    file, told = len(descriptors) - 2, len(descriptors) - 1
    program: dict[str, Any] = json.loads(os.pread(file, os.fstat(file).st_size, 0))
    os.close(file)
    try:
        confine(libc, setup, None if rules is None else told + 1)
    except OSError as error:
        os.write(told, f"{error.strerror}: {os.strerror(error.errno or 0)}".encode())
        os._exit(1)
    os.write(told, READY)
    os.close(told)
    return program


def watch(control: _socket.socket, pid: int, cpu_seconds: float) -> dict[str, Any]:
    """Wait for the child, and return how it ended.

    It is ended when it has used its processor time, when the parent says anything, and when the parent is gone. The
    kernel's own limit counts in ticks, which a busy machine makes wrong, and in whole seconds.
    """
    process = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.register(control.fileno(), select.POLLIN)
    cores = len(os.sched_getaffinity(0))
    over = False
    while not over:
        left = cpu_seconds - time.clock_gettime(~pid << 3 | SCHEDULER_CLOCK)
        over = left <= 0
        ready = dict(poll.poll(0 if over else 1 + 1000 * left / cores))
        if process in ready:
            over = False
            break
        if over or ready:
            os.kill(pid, signal.SIGKILL)
        if ready:
            control.recv(LARGEST_MESSAGE)
            break
    os.close(process)
    _, status, usage = os.wait4(pid, 0)
    code, seconds = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
    return {"code": code, "cpu": seconds, "over": over or seconds >= cpu_seconds, "memory": usage.ru_maxrss * 1024}
