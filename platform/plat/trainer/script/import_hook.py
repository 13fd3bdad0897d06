"""Let Python import the copies of a snapshot in place of the files (`plat.trainer.script.snapshot`).

A copy of it is `hook/sitecustomize.py`, which each Python (3.7 or newer) reads that has this folder in PYTHONPATH.
Where READS names a file, it also notes there which files each Python has read, for `plat judge`.
"""

from __future__ import annotations

import atexit
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec, source_from_cache, spec_from_file_location
from typing import Any

HOOK = os.path.dirname(os.path.realpath(__file__))
FILES = os.path.join(os.path.dirname(HOOK), "files")
READS = "PLAT_READS"  # the file to which the paths of files that were read are appended
OF_SYSTEM = ("/usr/lib", "/usr/share/", "/usr/bin/", "/lib/", "/lib32/", "/lib64/", "/etc/", "/proc/", "/sys/", "/dev/")


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


def note_reads(file: str) -> None:
    """Append to a file, when this process ends, the files that it has read, without those of Python and the system."""
    own = (sys.prefix, sys.base_prefix, HOOK, *OF_SYSTEM)
    paths = set()

    def note(event: str, arguments: Any) -> None:
        if event == "open" and isinstance(arguments[0], (str, bytes)) and not (arguments[2] or 0) & os.O_WRONLY:
            try:  # an error here would be one of the script
                path = os.fsdecode(arguments[0])
                paths.add(path if os.path.isabs(path) else os.path.join(os.getcwd(), path))
            except OSError:  # its folder was removed
                pass

    def write() -> None:
        pid, found = os.getpid(), set()
        for path in paths.copy():  # other threads may still read
            if path.endswith(".pyc") and "__pycache__" in path:
                path = source_from_cache(path)
            real = os.path.realpath(path)
            original = real[len(FILES) :] if real.startswith(FILES + os.sep) else real
            if not original.startswith(own) and os.path.isfile(real):
                found.add(original)
        if not found or pid != started:  # a fork ends with the same list
            return
        try:
            with open(file, "a", encoding="utf-8", errors="surrogateescape") as notes:
                notes.write("".join(f"{path}\n" for path in sorted(found) if "\n" not in path))
        except OSError:
            pass

    started = os.getpid()
    atexit.register(write)
    sys.addaudithook(note)


if __name__ == "sitecustomize":
    if os.environ.get(READS) and sys.version_info >= (3, 8):
        note_reads(os.environ[READS])
    sys.meta_path.insert(0, Finder)
    hidden = PathFinder.find_spec("sitecustomize", [each for each in sys.path if os.path.realpath(each) != HOOK])
    if hidden is not None and hidden.loader is not None:
        hidden.loader.exec_module(module_from_spec(hidden))
