"""Signs of life between two events of a run, for slow code: decoding, scoring, micro-batches.

    beat()      call it in a loop of the trainer; it costs nothing until EVERY seconds have passed

A run is ended as stalled when it neither logs nor beats for `Trainer.stall_after` seconds. Only the loop beats, so
a process that hangs does not.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

EVERY = 5.0  # seconds


_act: Callable[[], None] | None = None  # what a beat does in this process
_last = 0.0  # time of the last beat


def beat() -> None:
    """Report that the run makes progress, at most once in EVERY seconds. Does nothing outside `beating`."""
    global _last
    if _act is None or time.monotonic() - _last < EVERY:
        return
    _last = time.monotonic()
    with contextlib.suppress(OSError):  # a full disk: the next event says so
        _act()


@contextlib.contextmanager
def beating(act: Callable[[], None]) -> Iterator[None]:
    """Let `beat` call `act` within the block, in all threads of this process. `beat` ignores an OSError of `act`."""
    global _act
    before, _act = _act, act
    try:
        yield
    finally:
        _act = before
