"""The worker server: a process that imports the trainers' heavy modules once and forks one process per job.

It is single-threaded and executes no job itself. When its parent ends, it sends SIGTERM to its workers, waits GRACE
seconds, kills the rest and ends. SIGTERM goes to a worker alone, so that it can save. SIGKILL also ends every process
that the worker has started, in any group or session (`plat.processes.process_tree`); the end of a job is reported only
after all of them have ended.

A worker whose trainer allows it (`Trainer.reuses_process`) waits after a finished job, and executes the next one of
the same environment: a fork and an end of a process take longer than the rest of such a job.

JSON lines over a socket. In: {"op": "start", "job": ..., ...}, {"op": "signal", "job": ..., "number": ...}. Out:
{"event": "ready"}, {"event": "exit", "job": ..., "status": <wait status>, "result": <of `work`> | null}.
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
from typing import Any

from plat.dispatch.local import worker
from plat.dispatch.local.job_processes import WorkerHandle, close
from plat.processes import process_tree
from plat.processes.own_process import handle_of, wait_for_end
from plat.runner.training import warm_up
from plat.words.outcomes import failed

# Not multiprocessing's forkserver: on Python 3.11 it imports the parent's main module again in every child, preloads
# with another sys.path, outlives its parent as long as a child lives, and gives wrong exit codes when used from two
# threads.
GRACE = 60.0  # seconds that workers have to save
PARENT_SECONDS = 1.0  # a killed parent closes its connection a moment before it has ended
MODULES = ("omegaconf", "yaml", "numpy", "safetensors.numpy", "ctypes", "plat.spec.expansion.experiment")


class Server:
    """The worker server (see the module docstring). `connection`: the socket to its parent."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._children: dict[int, WorkerHandle] = {}
        self._buffer = b""
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        # These reach the whole process group; the parent decides what they mean.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGTSTP, self._suspend)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake_writer = wake
        self._parent = handle_of(os.getppid())
        self._helpers: list[int] = []  # processes that an imported module has started

    def warm_up(self, trainers: list[str]) -> None:
        """Import the modules of workers. Failures are only logged: the run that needs a module reports it better."""
        for work, names in ((importlib.import_module, MODULES), (warm_up, trainers)):
            for name in names:
                try:
                    work(name)
                except Exception:
                    traceback.print_exc()
        gc.collect()
        gc.freeze()  # keeps the garbage collector of the workers off the shared pages

    def serve(self) -> None:
        """Handle requests of the parent until it is gone; then stop the workers, and return when all have ended."""
        self._helpers = process_tree.children(os.getpid())
        process_tree.adopt_orphans()
        self._send({"event": "ready"})
        while True:
            busy = {child.results: child for child in self._children.values() if child.may_go_on()}
            readable = _readable([self._connection.fileno(), self._wake.fileno(), *busy])
            if self._wake.fileno() in readable:
                self._reap()
            else:
                self._note_results([child for end, child in busy.items() if end in readable])
            if self._connection.fileno() in readable and not self._receive():
                return self._shut_down()

    def _receive(self) -> bool:
        """Handle the requests that arrived; return False if the parent is gone."""
        try:
            data = self._connection.recv(1 << 16)
        except ConnectionError:
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "start":
                if not any(child.give(request) for child in self._children.values()):
                    self._start(request)
            elif request["op"] == "signal":
                for pid, child in self._children.items():
                    if child.job == request["job"]:
                        _signal(pid, request["number"])
        return bool(data)

    def _note_results(self, children: list[WorkerHandle]) -> None:
        """Report the ends of jobs whose workers now wait for further ones."""
        for child in children:
            result = child.result()
            if result is not None and worker.may_go_on(result):
                self._end_others()
                self._send({"event": "exit", "job": child.job, "status": 0, "result": result})
                child.job = None

    def _start(self, request: dict[str, Any]) -> None:
        waiting = [child for child in self._children.values() if child.waits()]
        if waiting:  # with another environment: there are never more workers than jobs at once
            waiting[0].dismiss()
        try:
            child, ends = WorkerHandle.opened(request)
        except OSError as error:
            return self._refuse(request, error)
        server = os.getpid()
        # The child inherits that SIGTERM is ignored; blocked, an early one stays pending until the child handles it.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            pid = os.fork()
        except OSError as error:  # no memory or no process left: only this job fails
            child.close()
            close(*ends)
            return self._refuse(request, error)
        finally:
            if os.getpid() == server:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        if pid == 0:
            child.close()
            self._in_child(request, ends, server)
        close(*ends)
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # here and in the child: the first call counts
        self._children[pid] = child

    def _refuse(self, request: dict[str, Any], error: OSError) -> None:
        """Report that the system lacks what a process for this job needs."""
        result = {"outcome": failed("node"), "reason": f"cannot start a process: {error.strerror}"}
        self._send({"event": "exit", "job": request["job"], "status": 256, "result": result})

    def _in_child(self, request: dict[str, Any], ends: tuple[int | None, int], server: int) -> None:
        """Execute the job, and further ones that come, and exit. Never returns.

        ends   of the pipes to the server: (requests, results)
        """
        code = 1
        try:
            worker.become_worker(server, self._parent)
            for end in (self._connection, self._wake, self._wake_writer):
                end.close()
            for child in self._children.values():
                child.close()
            os.environ.update(request["env"])
            worker.work_on(request, *ends)
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
                _signal(pid, signal.SIGKILL)  # the processes that it has started and left behind
                status = os.waitpid(pid, 0)[1]
                child = self._children.pop(pid)
                self._end_others()
                if child.job is not None:
                    self._send({"event": "exit", "job": child.job, "status": status, "result": child.result()})
                child.close()

    def _end_others(self) -> None:
        """End what workers have started and left behind."""
        process_tree.end_below(os.getpid(), [*self._children, *self._helpers], process_tree.GRACE)

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the parent is gone: `_receive` notices
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _shut_down(self) -> None:
        if any(child.job for child in self._children.values()) and self._parent is not None:
            wait_for_end(self._parent, PARENT_SECONDS)  # workers report whether it has ended
        until = time.monotonic() + GRACE
        for pid, child in self._children.items():  # one that waits has nothing to save, and may be stopped
            _signal(pid, signal.SIGKILL if child.job is None else signal.SIGTERM)
        while self._children and time.monotonic() < until:
            select.select([self._wake], [], [], 0.5)
            self._reap()
        for pid in self._children:
            _signal(pid, signal.SIGKILL)
        process_tree.end_below(os.getpid(), grace=process_tree.GRACE)

    def _suspend(self, number: int, frame: Any) -> None:
        """Stop and continue the workers together with the server: Ctrl-Z does not reach their process groups."""
        for pid in self._children:
            os.killpg(pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for pid in self._children:
            os.killpg(pid, signal.SIGCONT)


def _readable(descriptors: list[int]) -> set[int]:
    """Wait until something can be read from these descriptors, and return those. `select` takes none above 1023."""
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll()}


def _signal(pid: int, number: int) -> None:
    """Send a signal to a worker that has not been reaped (its number is still its own); SIGKILL to its whole group."""
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, number)
        os.kill(pid, number)


def main(descriptor: int, trainers: list[str]) -> None:
    """Run the worker server on the socket with this file descriptor, for these trainers. Never returns."""
    server = Server(socket.socket(fileno=descriptor))
    server.warm_up(trainers)
    server.serve()
    os._exit(0)  # no cleanup is needed, and exit handlers of libraries take a second
