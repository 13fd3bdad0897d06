"""Restrict a Ray that plat starts to the processes that plat starts.

Anyone who reaches the ports of a Ray without authentication can run code in it. So a Ray for one machine listens on
loopback only, and every Ray requires a token, which is new each time and is in no file.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

TOKEN = "PLAT_RAY_TOKEN"  # environment variable of a program that joins a run's Ray from another machine
_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"
# Ray's switch for "may have more than one node". If it is off, all its processes bind to loopback, on Linux too.
_SEVERAL_NODES = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"


@contextmanager
def private_ray(nodes: int) -> Iterator[dict[str, str]]:
    """Make a Ray that this process starts in the block require a token, and listen on loopback if it has one node.

    Yields the environment for a program that joins it from another machine: that of this process before the block, and
    TOKEN. The environment of this process is restored at the end.
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
    """Give this process, and those it starts, the token in TOKEN, with which they may join that Ray.

    Removes TOKEN from the environment. Does not connect to Ray. Does nothing without TOKEN.
    """
    token = os.environ.pop(TOKEN, None)
    if token is not None:
        _set({_MODE: "token", _TOKEN: token, _SEVERAL_NODES: "1"})


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables, or remove them (None), and update Ray, which has read them if it is imported."""
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
