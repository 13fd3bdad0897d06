"""Keeps a Ray that plat starts to the processes that plat starts.

Whoever reaches the ports of a Ray without authentication can run code in it. So one for a single machine listens on
loopback alone, and every one asks for a token, which is made anew and is in no file.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

TOKEN = "PLAT_RAY_TOKEN"  # in the environment of a program that is to join the Ray of a run from another machine
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
# Ray's name for "may have more than one node". Where it is off every process of it binds to loopback, on Linux as well.
_SEVERAL_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def private_ray(nodes: int) -> Iterator[dict[str, str]]:
    """The Ray that this process starts in the block asks for a token, and is on loopback if it has one node.

    Yields the environment for a program that starts it on further machines: this process's own, without what concerns
    this Ray, and TOKEN. The process's environment is restored at the end.
    """
    before = {name: os.environ.get(name) for name in (_MODE, _TOKEN, _SEVERAL_NODES)}
    elsewhere = dict(os.environ)
    token = secrets.token_hex(32)
    _set({_MODE: "token", _TOKEN: token, _SEVERAL_NODES: str(int(nodes > 1))})
    try:
        yield {**elsewhere, TOKEN: token}
    finally:
        _set(before)


def join_private_ray() -> None:
    """Let this process, and what it starts, join the Ray whose token is in TOKEN."""
    token = os.environ.pop(TOKEN, None)
    if token is not None:
        _set({_MODE: "token", _TOKEN: token, _SEVERAL_NODES: "1"})


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables, or remove them (None), and tell a Ray that has read them already because it is imported."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    if "ray" not in sys.modules:
        return
    from ray import _raylet
    from ray._private import ray_constants

    raylet: Any = _raylet
    raylet.Config.initialize("")
    raylet.AuthenticationTokenLoader.instance().reset_cache()
    ray_constants.ENABLE_RAY_CLUSTER = os.environ.get(_SEVERAL_NODES, "1") != "0"
