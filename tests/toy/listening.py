"""Which sockets begin to listen on this machine while something runs."""

from __future__ import annotations

import contextlib
import ipaddress
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

TICK = 0.1  # seconds between two looks


@dataclass
class Listening:
    """What was seen: (address, name of the process) of every socket that was not there before."""

    seen: set[tuple[str, str]] = field(default_factory=set)

    @property
    def exposed(self) -> set[tuple[str, str]]:
        """Those that a process on another machine can reach."""
        return {(address, name) for address, name in self.seen if not _is_loopback(address)}


@contextlib.contextmanager
def listening() -> Iterator[Listening]:
    """Look until the block ends."""
    result, ended = Listening(), threading.Event()
    before = set(_sockets())

    def look() -> None:
        while not ended.is_set():
            for address, _, pid in set(_sockets()) - before:
                with contextlib.suppress(psutil.Error):
                    result.seen.add((address, psutil.Process(pid).name() if pid else "?"))
            time.sleep(TICK)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield result
    finally:
        ended.set()
        thread.join()


def _sockets() -> Iterator[tuple[str, int, int | None]]:
    for connection in psutil.net_connections("inet"):
        if connection.status == psutil.CONN_LISTEN:
            yield connection.laddr.ip, connection.laddr.port, connection.pid


def _is_loopback(address: str) -> bool:
    place = ipaddress.ip_address(address)
    mapped = getattr(place, "ipv4_mapped", None)
    return bool((mapped or place).is_loopback)
