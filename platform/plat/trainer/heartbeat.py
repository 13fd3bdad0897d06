"""Signs of life between two events of a run, from code that may take long: decoding, scoring, micro-batches.

    beat()      in a loop of the trainer: the run makes progress. It costs nothing until EVERY seconds have passed

A run is ended as stalled when it neither logs nor beats for `TrainerSpec.stall_after` seconds. A process that hangs
does not beat, because only the loop does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

EVERY = 5.0  # seconds


class _Heart:
    """What a beat does in this process, and when it did it last."""

    def __init__(self) -> None:
        self.act: Callable[[], None] | None = None
        self.last = 0.0


_heart = _Heart()


def beat() -> None:
    """Say that the run makes progress."""
    if _heart.act is None or time.monotonic() - _heart.last < EVERY:
        return
    _heart.last = time.monotonic()
    with contextlib.suppress(OSError):  # a full disk: the next event says so
        _heart.act()


@contextlib.contextmanager
def beating(act: Callable[[], None]) -> Iterator[None]:
    """Let `beat` call this in the block, at most once in EVERY seconds."""
    before = _heart.act
    _heart.act = act
    try:
        yield
    finally:
        _heart.act = before
