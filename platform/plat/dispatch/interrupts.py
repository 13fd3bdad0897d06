"""The signals with which a user ends a sweep: Ctrl-C, SIGTERM, a closed terminal."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

from plat.dispatch.api import Dispatcher


@contextlib.contextmanager
def recorded(dispatcher: Dispatcher) -> Iterator[list[int]]:
    """A list of every SIGINT, SIGTERM and SIGHUP that comes meanwhile; from the first on, nothing is started any more.

    The dispatcher is stopped in the signal handler, before the driver looks at the list: workers may have got the
    signal too and be gone, and their runs must not be started again. A signal that is ignored stays so (`nohup`).
    """
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)
        dispatcher.stopping = True

    if threading.current_thread() is not threading.main_thread():
        yield seen
        return
    before = {}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
