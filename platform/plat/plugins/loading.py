"""Load plug-ins: what installed packages publish, and, if allowed, other code.

Reading all entry points takes some 15 ms, and a sweep needs its trainer once per run. So the result is cached for as
long as `sys.path` stays the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import PluginError, SpecError
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


# Import the modules that files name as `module:ATTRIBUTE` from the folders of these files.
#
# The folders come last on `sys.path`: a file of the user never hides a module of Python or of an installed package. The
# processes that execute runs get them in the environment, on this machine and on others.

FOLDERS = "PLAT_CODE_FOLDERS"  # a JSON list of paths
_used: set[str] = set()  # in this process, also by earlier commands


def import_from(folder: Path | None, module: str) -> None:
    """Let modules be found in the folders of FOLDERS, and in `folder`, if it has this dotted module."""
    folders = _inherited()
    if folder is not None and _has(folder, module.partition(".")[0]) and (path := str(folder.resolve())) not in folders:
        folders.append(path)
        os.environ[FOLDERS] = json.dumps(folders)
    _used.update(folders)
    new = [path for path in folders if path not in sys.path]
    if new:
        sys.path += new
        importlib.invalidate_caches()


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Restore FOLDERS after the block, and remove the folders that it added to `sys.path`."""
    before, path = os.environ.get(FOLDERS), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = [folder for folder in sys.path if folder in path or folder not in _used]
        os.environ.pop(FOLDERS, None)
        if before is not None:
            os.environ[FOLDERS] = before


def check_beside(module: str, folder: Path) -> None:
    """Raise SpecError if a module, or one that it imports, came from elsewhere although `folder` has another version.

    One process imports a module once. Two files that each have their own one beside them need two commands.
    """
    if len(_used) < 2:  # a module that is found on PYTHONPATH first is meant
        return
    from plat.plugins.plugin_code import DIGITS, imported_files  # which plat --help does not need

    for name, digest in imported_files(module).items():
        file = folder / name
        if file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest()[:DIGITS] != digest:
            what = f"{name} of another folder is loaded already, and this file has another one beside it"
            raise SpecError(what, where=str(file), fix="give a command for each file, or rename one of the modules")


def file_of(place: str) -> str | None:
    """Return the file of the imported module that `module:ATTRIBUTE` names, relative to the current folder if below it.

    None if the module is not imported, or has no file.
    """
    file: str | None = getattr(sys.modules.get(place.partition(":")[0]), "__file__", None)
    if file is None:
        return None
    relative = os.path.relpath(file)
    return file if relative.startswith(os.pardir + os.sep) else relative


def _has(folder: Path, top: str) -> bool:
    """Return True if a folder has this top-level module or package."""
    return (folder / top).is_dir() or any((folder / f"{top}{end}").is_file() for end in all_suffixes())


def _inherited() -> list[str]:
    """Return the folders of FOLDERS; none if its text is not a list of paths."""
    try:
        folders = json.loads(os.environ.get(FOLDERS, "[]"))
    except ValueError:
        return []
    return [folder for folder in folders if isinstance(folder, str)] if isinstance(folders, list) else []
