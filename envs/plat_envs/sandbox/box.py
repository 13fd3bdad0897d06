"""A box: a launcher that runs each test of each program in a new child."""

from __future__ import annotations

import array
import contextlib
import json
import os
import random
import select
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox import commands
from plat_envs.sandbox.program import Limits, Outcome, Program, Status

COMMANDS: dict[str, Callable[[], list[str]]] = {
    "namespaces": commands.in_namespaces,
    "landlock": commands.direct,
    "limits_only": commands.direct,
}
PATIENCE = 30.0  # seconds for a launcher to start, or to report a child that was ended


class Box:
    """A started launcher. Use it in one thread, as a context manager; `close` ends every process in it.

    Raises BadEnvironment if it does not start.
    """

    def __init__(self, level: str, limits: Limits) -> None:
        self.level, self.limits = level, limits
        self._is_interrupted = False
        self._start()

    def _start(self) -> None:
        command = COMMANDS[self.level]()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=commands.ENVIRONMENT,
                cwd="/",
                start_new_session=True,
            )
        self._control.settimeout(PATIENCE)
        uid = one_of_its_own() if os.geteuid() == 0 else None
        setup = {"level": self.level, "limits": vars(self.limits), "uid": uid, "readable": commands.readable()}
        with _file_with(setup) as file:
            self._send(b"setup", [file])
        if not self._receive():
            words = self._last_words()
            self.close()
            raise BadEnvironment(f"a box of level {self.level} does not start{words}")

    def _send(self, message: bytes, descriptors: list[int]) -> None:
        numbers = array.array("i", descriptors)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)] if descriptors else []
        with contextlib.suppress(OSError):  # a launcher that died is noticed when it reports nothing
            self._control.sendmsg([message], ancillary)

    def run_each(self, program: Program, stdins: Sequence[bytes]) -> Iterator[Outcome]:
        """Run the program once for each input, each time in a new child.

        Raises BadEnvironment if a child cannot give up its rights.
        """
        with _file_with({"source": program.source, "function": program.function}) as file:
            for stdin in stdins:
                yield self._run(file, program.function is not None, stdin)

    def _run(self, program: int, function: bool, stdin: bytes) -> Outcome:
        (their_in, our_in), (our_out, their_out), (our_error, their_error) = [os.pipe() for _ in range(3)]
        theirs = [their_in, their_out, their_error, program]
        if function:  # what it prints goes to stderr, and its value to a descriptor of its own
            theirs = [their_in, their_error, their_error, their_out, program]
        self._send(b"run", theirs)
        for descriptor in (their_in, their_out, their_error):
            os.close(descriptor)
        with Exchange(our_in, our_out, our_error, stdin, self.limits.output_bytes) as exchange:
            started = time.monotonic()
            stopped = exchange.follow(self._control.fileno(), started + self.limits.wall)
            if stopped:
                self._send(b"stop", [])
            message = self._receive()
            wall = time.monotonic() - started
            exchange.drain()
        if not message and self._is_interrupted:
            raise BadEnvironment("the box was ended from another thread")
        if not message:
            words = self._last_words()
            self.close()
            self._start()
            return Outcome("killed", stderr=f"the box ended by itself{words}", exit_code=-9)
        report = json.loads(message)
        if report["problem"]:
            what = f"a box of level {self.level} cannot be closed: {report['problem']}"
            raise BadEnvironment(what, fix="`plat sandbox probe` tries all levels")
        tail = exchange.error.decode("utf-8", "replace")
        status = _status(report, stopped or ("output" if exchange.is_over() else None), tail)
        code, cpu, memory = report["code"], report["cpu"], report["memory"]
        return Outcome(status, bytes(exchange.output), tail, code, cpu, wall, memory)

    def _receive(self) -> bytes:
        """Return the next message of the launcher; b"" if it died."""
        try:
            return self._control.recv(1 << 12)
        except OSError:
            return b""

    def _last_words(self) -> str:
        """End the launcher; return what it said last."""
        self._process.kill()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode("utf-8", "replace").strip().splitlines()
        return f": {said[-1]}" if said else ""

    def interrupt(self) -> None:
        """End what runs in the box, from another thread: its `run_each` raises BadEnvironment."""
        self._is_interrupted = True
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)  # the launcher ends its child and leaves

    def close(self) -> None:
        """End every process of the box."""
        self._control.close()  # the launcher leaves by itself
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()

    def __enter__(self) -> Box:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _file_with(value: dict[str, Any]) -> Iterator[int]:
    """Give a descriptor of a file in memory that holds a value as JSON."""
    descriptor = os.memfd_create("plat")
    try:
        with open(descriptor, "w", encoding="utf-8", closefd=False) as file:
            json.dump(value, file)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _status(report: dict[str, Any], stopped: Status | None, tail: str) -> Status:
    """Return how a test ended. Its own words (`tail`) decide only what a failure is called."""
    if report["over"]:
        return "cpu"
    if stopped:
        return stopped
    if report["code"] < 0:
        return "killed"
    if report["code"] > 0:
        return "memory" if tail.rstrip().rpartition("\n")[2].startswith("MemoryError") else "error"
    return "ok"


# The parent's side of the pipes of one test: feed stdin, read up to a limit, keep the end of stderr.

STDERR_TAIL = 4096
AT_ONCE = 1 << 16  # bytes in one read or write


class Exchange:
    """The parent's ends of the three pipes of one test."""

    def __init__(self, our_in: int, our_out: int, our_error: int, stdin: bytes, limit: int) -> None:
        self.output, self.error = bytearray(), bytearray()
        self._read_errors = 0
        self._stdin, self._limit = memoryview(stdin), limit
        self._in, self._out, self._err = our_in, our_out, our_error
        self._open = {our_in, our_out, our_error}
        self._poll = select.poll()
        for descriptor in self._open:
            os.set_blocking(descriptor, False)
        self._poll.register(our_in, select.POLLOUT)
        self._poll.register(our_out, select.POLLIN)
        self._poll.register(our_error, select.POLLIN)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)

    def follow(self, control: int, deadline: float) -> Status | None:
        """Write and read until the launcher reports; return why the program has to be stopped, if it has."""
        self._poll.register(control, select.POLLIN)
        while (left := deadline - time.monotonic()) > 0:
            ready = dict(self._poll.poll(left * 1000))
            for descriptor in ready.keys() - {control}:
                self._move(descriptor)
            if self.is_over():
                return "output"
            if control in ready:
                return None
        return "wall"

    def drain(self) -> None:
        """Read what is left in the pipes of a program that has ended."""
        for descriptor in self._open - {self._in}:
            while descriptor in self._open and not self.is_over() and self._move(descriptor):
                pass

    def is_over(self) -> bool:
        """Return True if the program wrote more than it may."""
        return len(self.output) > self._limit or self._read_errors > self._limit

    def _move(self, descriptor: int) -> bool:
        """Move some bytes; close the pipe at its end. Return False if there was nothing to move."""
        try:
            if descriptor == self._in:
                self._stdin = self._stdin[os.write(descriptor, self._stdin[:AT_ONCE]) :] if self._stdin else self._stdin
                if not self._stdin:
                    self._close(descriptor)
                return True
            data = os.read(descriptor, AT_ONCE)
        except BlockingIOError:
            return False
        except BrokenPipeError:
            self._close(descriptor)
            return False
        if not data:
            self._close(descriptor)
        elif descriptor == self._out:
            self.output += data
        else:
            self._read_errors += len(data)
            self.error = (self.error + data)[-STDERR_TAIL:]
        return bool(data)

    def _close(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        self._open.remove(descriptor)
        os.close(descriptor)


# A user for programs that root runs: one whom nobody else is.

FIRST, NUMBER = 1 << 30, 1 << 30  # far from all real users
ORDINARY = 1 << 15  # a container has often no more than 65,536 users; real ones have low numbers, nobody the highest


def one_of_its_own() -> int | None:
    """Return a random number of a user and a group that exist here; None if root is the only user."""
    users = min(_known(Path("/proc/self/uid_map")), _known(Path("/proc/self/gid_map")))
    if users >= FIRST + NUMBER:
        return FIRST + random.SystemRandom().randrange(NUMBER)
    if users >= 2 * ORDINARY:
        return ORDINARY + random.SystemRandom().randrange(ORDINARY - 1000)
    return None


def _known(path: Path) -> int:
    """Return how many numbers from 0 on are known without a gap."""
    known = 0
    for first, _, length in sorted(tuple(map(int, line.split())) for line in path.read_text().splitlines()):
        if first > known:
            break
        known = max(known, first + length)
    return known
