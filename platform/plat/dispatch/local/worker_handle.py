"""What the worker server knows of a worker, and its ends of the pipes to it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any


@dataclass
class WorkerHandle:
    """A worker. Requests and results are lines of JSON.

    job          the job that it executes; None while it waits for the next
    environment  variables with which it was started
    requests     descriptor of the pipe for further jobs; None if the worker ends after its job
    results      descriptor of the pipe for the result of each job
    """

    job: str | None
    environment: dict[str, str]
    requests: int | None
    results: int
    _read: bytes = b""

    @classmethod
    def opened(cls, request: dict[str, Any]) -> tuple[WorkerHandle, tuple[int | None, int]]:
        """Return the handle for the worker that will execute a job, and the worker's ends: (requests, results).

        Raises OSError if this process may open no more files.
        """
        results, writer = os.pipe()
        try:
            reader, requests = os.pipe() if request["reuses_process"] else (None, None)
        except OSError:
            close(results, writer)
            raise
        os.set_blocking(results, False)
        return cls(request["job"], request["env"], requests, results), (reader, writer)

    def may_go_on(self) -> bool:
        """Return True if the worker executes a job and may wait for a further one after it."""
        return self.job is not None and self.requests is not None

    def waits(self) -> bool:
        """Return True if the worker waits for a further job."""
        return self.job is None and self.requests is not None

    def dismiss(self) -> None:
        """Let a worker that waits end."""
        close(self.requests)
        self.requests = None

    def give(self, request: dict[str, Any]) -> bool:
        """Give the worker a further job. Returns False if it cannot take it."""
        if self.job is not None or self.requests is None or self.environment != request["env"]:
            return False
        try:
            os.write(self.requests, _line(request))
        except BrokenPipeError:  # it has just died
            return False
        self.job, self._read = request["job"], b""
        return True

    def result(self) -> dict[str, Any] | None:
        """Return the result of the job, None if there is none yet."""
        with contextlib.suppress(BlockingIOError):
            self._read += os.read(self.results, 1 << 16)
        return json.loads(self._read) if self._read.endswith(b"\n") else None

    def close(self) -> None:
        """Close the pipes at this end."""
        close(self.requests, self.results)


def write_result(descriptor: int, result: dict[str, Any]) -> None:
    """Write the result of a job, as a worker. It is short: the pipe holds it, so this cannot block."""
    os.write(descriptor, _line(result))


def close(*descriptors: int | None) -> None:
    """Close the descriptors that are not None."""
    for descriptor in descriptors:
        if descriptor is not None:
            os.close(descriptor)


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"
