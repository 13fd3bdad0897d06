"""The worker server: a process that has imported the trainers' heavy modules once and forks one process per job.

Promised: it is single-threaded, runs no job itself, and ends when its parent ends: it then asks its workers to stop
(SIGTERM), gives them GRACE seconds to save, kills what is left, and goes. It ignores Ctrl-C and SIGTERM, which reach
the whole process group: the parent decides what they mean. Every worker leads a process group of its own: a worker is
asked to stop alone, so that it can save, but it is killed together with every process it has started, and those do not
outlive it, whatever group or session they have made: when a worker is gone, the server is their parent
(`plat.runner.process_tree`), and the end of the job is reported only after theirs.

It speaks JSON lines over a socket. In: {"op": "start", "job": ..., ...}, {"op": "signal", "job": ..., "number": ...}.
Out: {"event": "ready"}, {"event": "exit", "job": ..., "status": <wait status>, "result": <of `work`> | null}.

Why not `multiprocessing`'s forkserver: on Python 3.11 it imports the parent's main module again in every child,
preloads with another sys.path than the parent's, lives on after its parent as long as a child does, and gives wrong
exit codes when driven from two threads.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from typing import Any

from plat.dispatch.local import worker
from plat.runner import process_tree
from plat.runner.process import handle_of, wait_for_end
from plat.runner.training import warm_up

GRACE = 60.0
PARENT_SECONDS = 1.0  # a parent that is killed closes its line a moment before it has ended
MODULES = ("omegaconf", "yaml", "numpy", "safetensors.numpy", "ctypes", "plat.spec.experiment")
LONGEST_RESULT = 30_000  # bytes; a pipe holds at least twice that, so a worker never waits for us


@dataclass
class _Child:
    job: str
    result: int  # read end of the pipe on which the worker says how it went


class Server:
    """The worker server, see the module. `connection`: the socket to its parent."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._children: dict[int, _Child] = {}
        self._buffer = b""
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTSTP, self._suspend)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake_writer = wake
        self._parent = handle_of(os.getppid())
        self._helpers: list[int] = []  # processes that an imported module has started for itself

    def warm_up(self, trainers: list[str]) -> None:
        """Import what workers will need. A failure is left to the run that needs it, which can say so better."""
        for work, names in ((importlib.import_module, MODULES), (warm_up, trainers)):
            for name in names:
                try:
                    work(name)
                except Exception:
                    traceback.print_exc()
        gc.collect()
        gc.freeze()  # keeps the garbage collector of the workers off the shared pages

    def serve(self) -> None:
        """Obey the parent until it is gone."""
        self._helpers = process_tree.children(os.getpid())
        process_tree.adopt_orphans()
        self._send({"event": "ready", "pid": os.getpid()})
        while True:
            readable, _, _ = select.select([self._connection, self._wake], [], [])
            if self._wake in readable:
                self._reap()
            if self._connection in readable and not self._receive():
                return self._shut_down()

    def _receive(self) -> bool:
        """Obey what came in; False when the parent is gone."""
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "start":
                self._start(request)
            elif request["op"] == "signal":
                for pid, child in self._children.items():
                    if child.job == request["job"]:
                        _signal(pid, request["number"])
        return bool(data)

    def _start(self, request: dict[str, Any]) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        server = os.getpid()
        # The child inherits that SIGTERM is ignored; blocked, one that comes too early waits until it no longer is.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            pid = os.fork()
        except OSError as error:  # no memory or no process left: that job only
            os.close(reader)
            os.close(writer)
            result = {"outcome": "failed:node", "reason": f"cannot start a process: {error.strerror}"}
            self._send({"event": "exit", "job": request["job"], "status": 256, "result": result})
            return
        finally:
            if os.getpid() == server:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        if pid == 0:
            os.close(reader)
            self._in_child(request, writer, server)
        os.close(writer)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here too: whoever of the two comes first
        self._children[pid] = _Child(request["job"], reader)

    def _in_child(self, request: dict[str, Any], writer: int, server: int) -> None:
        """Never returns."""
        code = 1
        try:
            worker.become_worker(server, self._parent)
            for end in (self._connection, self._wake, self._wake_writer):
                end.close()
            for child in self._children.values():
                os.close(child.result)
            os.environ.update(request["env"])
            result = json.dumps(worker.work(request)).encode()
            if len(result) > LONGEST_RESULT:
                result = json.dumps({**json.loads(result), "error": None}).encode()
            os.write(writer, result)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            with contextlib.suppress(Exception):
                worker.end_group()
            os._exit(code)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake.recv(4096):
                pass
        for pid in list(self._children):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                _signal(pid, signal.SIGKILL)  # what it has started and left behind
                status = os.waitpid(pid, 0)[1]
                child = self._children.pop(pid)
                spared = [*self._children, *self._helpers]
                process_tree.end_below(os.getpid(), spared, process_tree.GRACE)
                self._send({"event": "exit", "job": child.job, "status": status, "result": _read_result(child.result)})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the parent is gone: `_receive` notices
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _shut_down(self) -> None:
        if self._children and self._parent is not None:
            wait_for_end(self._parent, PARENT_SECONDS)  # workers say whether it has ended
        until = time.monotonic() + GRACE
        self._signal_all(signal.SIGTERM)
        while self._children and time.monotonic() < until:
            select.select([self._wake], [], [], 0.5)
            self._reap()
        self._signal_all(signal.SIGKILL)
        process_tree.end_below(os.getpid(), grace=process_tree.GRACE)

    def _suspend(self, number: int, frame: Any) -> None:
        """Ctrl-Z reaches the server, not the groups of its workers: they stop and continue with it."""
        for pid in self._children:
            os.killpg(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for pid in self._children:
            os.killpg(pid, signal.SIGCONT)

    def _signal_all(self, number: int) -> None:
        for pid in self._children:
            _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    """Send a signal to a worker that has not been reaped yet (so that the number is still its own); SIGKILL goes to its
    whole process group."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        os.kill(pid, number)


def _read_result(reader: int) -> dict[str, Any] | None:
    try:
        data = os.read(reader, 1 << 16)
        return json.loads(data) if data else None
    except (BlockingIOError, ValueError):
        return None
    finally:
        os.close(reader)


def main(descriptor: int, trainers: list[str]) -> None:
    """Be the worker server on a socket of this number, for these trainers."""
    server = Server(socket.socket(fileno=descriptor))
    server.warm_up(trainers)
    server.serve()
    os._exit(0)  # nothing to tidy up, and libraries' exit handlers take a second
