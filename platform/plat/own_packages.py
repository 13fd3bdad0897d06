"""The packages of plat's own distribution: their code counts by the versions of its trainers, not by its files."""

from __future__ import annotations

import contextlib
from functools import lru_cache

from plat.moved_modules import MOVED


@lru_cache(maxsize=1)
def own_packages() -> frozenset[str]:
    """Return the top-level packages of the distribution plat: `plat`, and those in which its plug-ins are.

    An editable install that is older than a move of modules names their earlier places; their present ones count, too.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # a slow import

    modules = ["plat", *MOVED.values()]
    with contextlib.suppress(PackageNotFoundError):
        modules += [point.module for point in distribution("plat").entry_points]
    return frozenset(module.partition(".")[0] for module in modules)
