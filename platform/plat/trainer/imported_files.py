"""The Python files that a module imports, found by reading them: nothing is imported.

Only modules count that may change without a new version: none of Python's, of plat's, or of an installed release.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

OWN = ("plat", "plat_envs", "plat_analysis")  # told by the versions of plat's trainers and environments
DIGITS = 16
_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


def imported_files(module: str) -> dict[str, str]:
    """The files of a dotted module and of everything that it imports: name from the folder of its top-level module ->
    the first 16 digits of its SHA-256. Empty for a module that does not count. Read once in a process."""
    return _imported_files(module, tuple(sys.path))


@lru_cache(maxsize=64)
def _imported_files(module: str, path: tuple[str, ...]) -> dict[str, str]:
    """`path` is sys.path."""
    files: dict[str, str] = {}
    known: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in known:
            continue
        known.add(name)
        found = _file_of(name)
        if found is None:
            continue
        file, root = found
        content = _read(file)
        files[file.relative_to(root).as_posix()] = hashlib.sha256(content).hexdigest()[:DIGITS]
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        waiting += [*_parents(name), *_imports(content, package)]
    return files


def _parents(module: str) -> Iterator[str]:
    """The packages around a module, whose `__init__.py` are imported with it."""
    while module := module.rpartition(".")[0]:
        yield module


def _file_of(module: str) -> tuple[Path, Path] | None:
    """The file of a dotted module, and the folder of its top-level module; None where there is no such file, or where
    it does not count."""
    top, *rest = module.split(".")
    place = _place(top)
    if place is None:
        return None
    if place.is_file():
        return None if rest else (place, place.parent)
    folder = place.joinpath(*rest)
    candidates = [folder / "__init__.py", *([folder.with_suffix(".py")] if rest else [])]
    return next(((file, place.parent) for file in candidates if file.is_file()), None)


@lru_cache(maxsize=1024)
def _place(top: str) -> Path | None:
    """The file of a top-level module, or the folder of a package; None where it does not count."""
    if not top or top in OWN or top in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError, AttributeError):  # such as __main__
        return None
    if spec is None:
        return None
    folders = list(spec.submodule_search_locations or ())
    origin = folders[0] if folders else spec.origin
    if not origin or not os.path.isabs(origin) or not (folders or origin.endswith(".py")):
        return None
    site = next((folder for folder in _SITE if origin.startswith(folder)), None)
    if site is not None:
        return Path(origin) if _is_from_a_folder(top, site) else None
    return None if origin.startswith(_STANDARD) else Path(origin)


def _is_from_a_folder(top: str, site: str) -> bool:
    """Whether an installed package was installed from a folder or a repository: it may change under its version."""
    for file in Path(site).glob("*.dist-info/direct_url.json"):
        try:
            origin = json.loads(file.read_text(encoding="utf-8"))
            if "dir_info" in origin or "vcs_info" in origin:
                installed = (file.parent / "RECORD").read_text(encoding="utf-8")
                if any(line.startswith((f"{top}/", f"{top}.py,")) for line in installed.splitlines()):
                    return True
        except (OSError, ValueError, TypeError):
            continue
    return False


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _imports(content: bytes, package: str) -> Iterator[str]:
    """The dotted names that a file of a package imports, in any of its lines; none when it cannot be parsed.

    `from a import b` gives both `a` and `a.b`, which may be a module.
    """
    try:
        nodes = list(ast.walk(ast.parse(content)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                around = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*around, *([node.module] if node.module else [])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")
