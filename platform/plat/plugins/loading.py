"""Load plug-ins: what installed packages publish, and, if allowed, other code.

Reading all entry points takes some 15 ms, and a sweep needs its trainer once per run. So the result is cached for as
long as `sys.path` stays the same.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from plat.errors import PluginError
from plat.user_code import position_of, user_code

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint, EntryPoints

PREFIX = "plat."  # of every group of entry points
# Set by `--allow-import`: a trainer may be named as `module:ATTRIBUTE`. The processes that execute runs inherit it.
ALLOW_IMPORT = "PLAT_ALLOW_IMPORT"


def groups() -> tuple[str, ...]:
    """Return the groups of all published plug-ins, sorted."""
    return tuple(sorted(group for group in _all(tuple(sys.path)).groups if group.startswith(PREFIX)))


def published(group: str) -> dict[str, EntryPoint]:
    """Return name -> entry point, sorted by name, without importing any. Do not change the result."""
    return _published(group, tuple(sys.path))


def load_plugin(group: str, name: str) -> Any:
    """Load the plug-in with this name.

    Raises PluginError if it is not installed or cannot be imported.
    """
    point = published(group).get(name)
    if point is None:
        what = f"no installed package has the plugin {name!r} of {group}"
        raise PluginError(what, where=f"entry points of {group}", fix="install the package that provides it")
    fix = "correct the package that provides it, or its line of entry points, and install it again (see `plat doctor`)"
    try:
        with user_code(f"the plugin {name!r} of {group} cannot be loaded", fix):
            plugin = point.load()
    except PluginError as error:
        error.where = f"{error.where} ({point.value})" if error.where else point.value
        raise
    return plugin


def load_choice(group: str, name: str) -> Any:
    """Load the plug-in that a config key of a trainer chooses (field metadata `plugin`); `config_type` has its options.

    Raises PluginError as `load_plugin` does, and if it has no `config_type`.
    """
    plugin = load_plugin(group, name)
    if not hasattr(plugin, "config_type"):
        value = published(group)[name].value
        what = f"the plugin {name!r} of {group} is a {type(plugin).__name__}, without `config_type`"
        raise PluginError(what, where=f"{position_of(value)} ({value})", fix="name a specification of this group")
    return plugin


@lru_cache(maxsize=64)
def _published(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    points = {point.name: point for point in _all(path).select(group=group)}
    return dict(sorted(points.items()))


@lru_cache(maxsize=4)
def _all(path: tuple[str, ...]) -> EntryPoints:
    from importlib.metadata import entry_points  # a slow import

    return entry_points()  # type: ignore[return-value]  # the stubs of 3.11
