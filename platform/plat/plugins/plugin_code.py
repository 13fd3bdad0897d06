"""The source files of unreleased plug-ins: their content is part of the identity of runs.

A released plug-in changes only with a new version. A script beside an experiment file, an editable install, or a
package installed from a folder may change at any time; so the hash of these files is part of the id of its runs:

    the modules that define a trainer's class and its bases, or the functions and types of an EnvironmentSpec
    every module that these import, directly or not, except those of Python, of an installed release, and of plat

Other modules of the package, such as a report builder, may change. Not detected: modules imported by a computed name,
and files that are not Python. Files are found by reading: nothing is imported.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from plat.moved_modules import own_packages
from plat.plugins.python_code import PREFIX, code_hash, python_code

TRAINER = "trainer"  # the key of the trainer among a run's plug-ins
FILES = "files"  # the key of the files that a run's config names
CODE = "code "  # prefix of a plug-in's code in an identity
DIGITS = 16
_PACKAGES = {  # modules whose package has another name
    "PIL": "pillow", "bs4": "beautifulsoup4", "cv2": "opencv-python", "hydra": "hydra-core",
    "lightning_utilities": "lightning-utilities", "pytorch_lightning": "pytorch-lightning", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "stable_baselines3": "stable-baselines3", "yaml": "PyYAML",
}  # fmt: skip
_STANDARD = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


@dataclass(frozen=True)
class PluginCode:
    """The code of a plug-in.

    files  name of a file, from the folder of its top-level module -> the first 16 digits of its SHA-256
    named  the author's name for this code (`code` of a Trainer or EnvironmentSpec); None: the files count
    """

    files: Mapping[str, str]
    named: str | None = None
    earlier: Mapping[str, str] | None = None  # as in `NamedFiles`
    packages: Mapping[str, str] = field(default_factory=dict)  # as in `NamedFiles`
    first: Path | None = None  # as in `NamedFiles`

    @property
    def digest(self) -> str:
        """Text that is hashed into the id of a run: `named`, else a hash of the files."""
        return self.named or hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()[:DIGITS]

    def is_named_by(self, digest: str) -> bool:
        """Return True if a run with this digest in its identity has this code, also by the rules of plat 0.4."""
        return digest == self.digest or (self.earlier is not None and digest == PluginCode(self.earlier).digest)

    def changed_since(self, recorded: Mapping[str, str]) -> list[str]:
        """Return the files that differ from recorded hashes, sorted; those of plat 0.4 are compared by its rules."""
        is_of_0_4 = self.earlier is not None and not any(digest.startswith(PREFIX) for digest in recorded.values())
        changed = changed_files(recorded, self.files)
        return changed_files(recorded, self.earlier) if changed and is_of_0_4 and self.earlier is not None else changed


class NamedFiles(dict[str, str]):
    """File -> hash of the files that a config names.

    earlier   the same by the rules of plat 0.4; a run that it has made keeps its id as long as this gives the id
    packages  name -> version of the released packages that these files import
    first     the place of the file that the config names first
    """

    first: Path | None = None

    def __init__(self, files: Mapping[str, str], earlier: Mapping[str, str], packages: Mapping[str, str]) -> None:
        super().__init__(files)
        self.earlier, self.packages = dict(earlier), dict(packages)


def installed_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return package -> version for the top-level modules that belong to an installed package, sorted."""
    found = {}
    for module in sorted({*modules} - {*sys.stdlib_module_names, *own_packages()}):
        name = _PACKAGES.get(module, module)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
            found[name] = importlib.metadata.version(name)
    return found


def plugin_code(spec: Any) -> PluginCode | None:
    """Return the code of a trainer's class or an EnvironmentSpec; None for an installed release, and for plat's own."""
    files: dict[str, str] = {}
    for value in spec.__mro__ if isinstance(spec, type) else filter(callable, vars(spec).values()):
        while isinstance(value, functools.partial):
            value = value.func
        files |= imported_files(str(getattr(value, "__module__", None) or ""))
    return PluginCode(files, getattr(spec, "code", None)) if files else None


def code_facts(key: str, spec: Any) -> list[tuple[str, str]]:
    """Return [(key, CODE + digest)] for the identity of a run with this plug-in under `key`; [] for a release."""
    code = plugin_code(spec)
    return [] if code is None else [(key, CODE + code.digest)]


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of files that are new, gone or different, sorted."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def imported_files(module: str, of_syntax: bool = False) -> dict[str, str]:
    """Return the files of a dotted module and of all its imports -> the first 16 digits of their SHA-256.

    of_syntax  return hashes that comments and layout do not change (`plat.plugins.python_code`)

    Names are relative to the folder of the top-level module. {} for a module of Python, of an installed release or of
    plat, and for one that is not found. Files are read once in a process, unless `read_files_again` is called.
    """
    found = _imported_files(module, tuple(sys.path))
    return {path.relative_to(root).as_posix(): hashes[of_syntax] for (path, root), hashes in found.items()}


def imported_paths(module: str) -> dict[Path, str]:
    """Return the paths of `imported_files`, with the hashes of their syntax."""
    return {path: hashes[True] for (path, _), hashes in _imported_files(module, tuple(sys.path)).items()}


def read_files_again() -> None:
    """Let `imported_files` read every file anew, e.g. before a further run of this process."""
    _imported_files.cache_clear()
    _place.cache_clear()


@lru_cache(maxsize=64)
def _imported_files(module: str, path: tuple[str, ...]) -> dict[tuple[Path, Path], tuple[str, str]]:
    """Return (file, folder of its top-level module) -> the hashes of its bytes and of its syntax. `path`: sys.path."""
    files: dict[tuple[Path, Path], tuple[str, str]] = {}
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
        try:
            content = file.read_bytes()
        except OSError:
            content = b""
        digest = hashlib.sha256(content).hexdigest()[:DIGITS]
        files[file, root] = digest, code_hash(content)
        package = name if file.name == "__init__.py" else name.rpartition(".")[0]
        parts = name.split(".")
        packages = [".".join(parts[:count]) for count in range(1, len(parts))]  # their __init__.py are imported with it
        waiting += [*packages, *imported_names(content, package)]
    return files


def _file_of(module: str) -> tuple[Path, Path] | None:
    """Return the file of a dotted module and the folder of its top-level module; None if missing or not counted."""
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
    """Return the file of a top-level module, or the folder of a package; None if it does not count."""
    if not top or top in own_packages() or top in sys.stdlib_module_names:
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
    if {"site-packages", "dist-packages"} & set(Path(origin).parts):
        return None  # of another environment that is on the path: what is installed there is released, too
    return None if origin.startswith(_STANDARD) else Path(origin)


def _is_from_a_folder(top: str, site: str) -> bool:
    """Return True if the package was installed from a folder or a repository: it may change without a new version."""
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


def imported_names(content: bytes, package: str) -> Iterator[str]:
    """Yield the dotted names that a file of a package imports, on any line; none if it cannot be parsed.

    `from a import b` yields both `a` and `a.b`, which may be a module.
    """
    for node in _imports(content):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            base = node.module or ""
            if node.level:
                around = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*around, *([node.module] if node.module else [])])
            if base:
                yield base
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


@lru_cache(maxsize=1024)
def _imports(content: bytes) -> tuple[ast.Import | ast.ImportFrom, ...]:
    tree = python_code(content).tree
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)) if tree else ()
