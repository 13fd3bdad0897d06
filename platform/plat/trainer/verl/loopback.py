"""Binds the store of `torch.distributed` to loopback, for a run on one machine. PyTorch binds it to every interface.

verl imports this module in each of its processes, because VERL_USE_EXTERNAL_MODULES names it.
"""

from __future__ import annotations

import socket
from importlib import import_module
from typing import Any

from torch.distributed import TCPStore

LOOPBACK = ("127.0.0.1", "localhost")


def store_on_loopback(host_name: str, port: int, *arguments: Any, is_master: bool = False, **options: Any) -> TCPStore:
    """A TCPStore; the one that listens on this machine for itself does so on loopback alone."""
    if is_master and host_name in LOOPBACK:
        try:
            options["master_listen_fd"] = socket.create_server((LOOPBACK[0], port)).detach()
        except OSError:  # this process listens there already: the store is shared
            pass
    return TCPStore(host_name, port, *arguments, is_master=is_master, **options)


# torch.distributed has a function of the module's name.
import_module("torch.distributed.rendezvous").TCPStore = store_on_loopback  # type: ignore[attr-defined]
