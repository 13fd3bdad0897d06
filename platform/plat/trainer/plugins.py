"""Which code outside plat may be loaded: what installed packages publish, and whether anything else is allowed.

`importlib.metadata.entry_points` reads the metadata of every installed package each time, some 15 ms; a sweep asks for
its trainer once per run. The result is kept for as long as `sys.path` stays the same.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plat.errors import PluginError
from plat.switches import is_on
from plat.user_code import user_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

ALLOW_IMPORT = "PLAT_ALLOW_IMPORT"


def imports_allowed() -> bool:
    """Whether a trainer may be named as `module:ATTRIBUTE`: with `--allow-import`, or with PLAT_ALLOW_IMPORT=1.

    The permission is an environment variable, so that the processes in which runs are done have it, too.
    """
    return is_on(ALLOW_IMPORT)


def published(group: str) -> dict[str, EntryPoint]:
    """Name -> entry point, sorted by name; imports none of them. Do not change the result."""
    return _published(group, tuple(sys.path))


def load_plugin(group: str, name: str) -> Any:
    """What is published under a name that exists; PluginError when its module cannot be imported."""
    point = published(group)[name]
    mend = "mend or reinstall the package that provides it; `plat doctor` tries all plugins"
    try:
        with user_code(f"the plugin {name!r} of {group} cannot be loaded", mend):
            return point.load()
    except PluginError as error:
        error.where = f"{error.where} ({point.value})" if error.where else point.value
        raise


@lru_cache(maxsize=64)
def _published(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    points = {point.name: point for point in _all(path).select(group=group)}
    return dict(sorted(points.items()))


@lru_cache(maxsize=4)
def _all(path: tuple[str, ...]) -> EntryPoints:
    from importlib.metadata import entry_points  # the package alone takes as long as all of ours

    return entry_points()  # type: ignore[return-value]  # the stubs of 3.11
