"""The files that decide a script's result: those its command names, what they import, and `script.files`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from plat.errors import SpecError
from plat.trainer.plugin_code import imported_files, imported_names
from plat.trainer.script.command import words_of
from plat.trainer.script.config import ScriptConfig
from plat.trainer.script.file_hashes import file_hash

FUNCTION_MODULE = "function of"  # stands before a module as `-m` does
MODULES = ("-m", FUNCTION_MODULE)


def source_files(script: ScriptConfig) -> dict[str, str]:
    """Return file -> the first 16 digits of its SHA-256, for every file that decides the result of a command.

    These are the words of the command that name a file below `script.folder`, the modules that a Python file among them
    imports from there or from an unreleased package, and the files that match `script.files`. Names are relative to the
    folder. Raises SpecError if a pattern of `script.files` matches nothing.
    """
    folder = Path(script.folder)
    found: dict[Path, str] = {}
    elsewhere: dict[str, str] = {}
    for path, roots in _named(script, folder):
        found[path] = file_hash(path)
        if path.suffix == ".py":
            found |= _imports_of(path, roots, elsewhere)
    for pattern in script.files:
        matches = sorted(path for path in folder.glob(pattern) if path.is_file())
        if not matches:
            fix = f"patterns are relative to {folder}; folders: data/**"
            raise SpecError(f"no file matches {pattern!r}", where="script.files", fix=fix)
        found |= {path: file_hash(path) for path in matches}
    return elsewhere | {path.relative_to(folder).as_posix(): digest for path, digest in found.items()}


def _named(script: ScriptConfig, folder: Path) -> Iterator[tuple[Path, list[Path]]]:
    """Yield the files below the folder that the command names, and where Python looks for their imports."""
    before = ""
    called = [FUNCTION_MODULE, script.function.partition(":")[0]] if script.function else []
    for word in [*words_of(script), *called]:
        is_module = before in MODULES
        files = [*_files_of(word, folder), *_files_of(f"{word}.__main__", folder)] if is_module else [folder / word]
        for path in dict.fromkeys(files):
            if "{" not in word and path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                yield path, [folder] if is_module else [path.parent, folder]
        before = word


def _imports_of(path: Path, roots: list[Path], elsewhere: dict[str, str]) -> dict[Path, str]:
    """Return file -> digest of everything that a Python file imports from `roots`, directly or not.

    elsewhere  gets the files of unreleased packages outside of `roots` that it imports (`plat.trainer.plugin_code`)
    """
    waiting, found = [path], {path: file_hash(path)}
    while waiting:
        file = waiting.pop()
        package = next((_package(file, root) for root in roots if file.is_relative_to(root)), "")
        for name in imported_names(file.read_bytes(), package):
            local = [module for root in roots for module in _files_of(name, root)]
            if not local:
                elsewhere |= imported_files(name)
            for module in local:
                if module not in found:
                    found[module] = file_hash(module)
                    waiting.append(module)
    return found


def _package(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).parent.parts)


def _files_of(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a dotted module below a folder, and the `__init__.py` of the packages above it."""
    place = root
    for part in name.split("."):
        place = place / part
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield file
