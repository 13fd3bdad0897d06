"""The parent's side of the pipes of one test: feed stdin, read up to a limit, keep the end of stderr."""

from __future__ import annotations

import os
import select
import time

from plat_envs.sandbox.program import Status

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
