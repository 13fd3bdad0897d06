"""Let Python import the copies of a snapshot in place of the files (`plat.trainer.script.snapshot`).

A copy of it is `hook/sitecustomize.py`, which each Python (3.7 or newer) reads that has this folder in PYTHONPATH.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

HOOK = os.path.dirname(os.path.realpath(__file__))
FILES = os.path.join(os.path.dirname(HOOK), "files")


def copy_of(path: str) -> str:
    """Return the copy of a file, "" if there is none: everything else in a snapshot is behind a link."""
    place = "" if path.startswith((sys.prefix, sys.base_prefix)) else FILES + os.path.realpath(path)
    return place if os.path.isfile(place) and os.path.realpath(place) == place else ""


class Finder:
    """Find modules as the other finders do, and load the copy if there is one."""

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return what Python needs to load a module, None if no finder knows it."""
        finders = [finder.find_spec for finder in sys.meta_path if finder is not cls and hasattr(finder, "find_spec")]
        found = next(filter(None, (find(name, path, target) for find in finders)), None)
        place = copy_of(found.origin) if found is not None and found.has_location and found.origin else ""
        if found is None or not place:
            return found
        inside = None if found.submodule_search_locations is None else [os.path.dirname(place)]
        return spec_from_file_location(name, place, submodule_search_locations=inside)


if __name__ == "sitecustomize":
    sys.meta_path.insert(0, Finder)
    hidden = PathFinder.find_spec("sitecustomize", [each for each in sys.path if os.path.realpath(each) != HOOK])
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(module_from_spec(hidden))
