"""What a process knows of itself."""

from __future__ import annotations

import os
import resource

import pytest

from plat.processes.own_process import forget_peak_memory

SIZE = 200 << 20  # bytes


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="this system keeps the peak")
def test_memory_that_was_freed_before_does_not_count() -> None:
    before = bytearray(SIZE)
    del before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    forget_peak_memory()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < peak - (SIZE >> 11)
