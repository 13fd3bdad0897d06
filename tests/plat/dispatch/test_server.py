"""The worker server's wait for its connection and its workers."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from plat.dispatch.local.server import _readable

HIGH = 1100  # more than `select` can wait for: a server of several hundred workers has such descriptors


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= HIGH, reason="few files may be open here")
def test_descriptors_of_many_workers_are_waited_for() -> None:
    quiet, other = os.pipe()
    reader, writer = os.pipe()
    high = fcntl.fcntl(reader, fcntl.F_DUPFD_CLOEXEC, HIGH)
    os.write(writer, b"x")
    assert _readable([quiet, high]) == {high}
    os.close(other)
    assert _readable([quiet]) == {quiet}  # its other end is closed
    for descriptor in (quiet, reader, writer, high):
        os.close(descriptor)
