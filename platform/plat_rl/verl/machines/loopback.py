"""Bind the store of `torch.distributed` to loopback, for a run on one machine. PyTorch binds it to every interface.

verl imports this module in each of its processes, because VERL_USE_EXTERNAL_MODULES names it.
"""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any

_RENDEZVOUS: Any = import_module("torch.distributed.rendezvous")  # torch.distributed has a function of this name
_TCPStore = _RENDEZVOUS.TCPStore
LOOPBACK = ("127.0.0.1", "localhost")


def store_on_loopback(host_name: str, port: int, *, is_master: bool = False, **options: Any) -> Any:
    """Return a TCPStore; a master whose host name is in LOOPBACK listens there only, any other on every interface."""
    if is_master and host_name in LOOPBACK:
        try:
            options["master_listen_fd"] = socket.create_server((LOOPBACK[0], port)).detach()
        except OSError:  # this process listens there already: the store is shared
            pass
    return _TCPStore(host_name, port, is_master=is_master, **options)


_RENDEZVOUS.TCPStore = store_on_loopback
