"""Find the files that a command names, with the folders in which Python looks for what they import.

Every word counts, also inside of `bash -c '...'` and after `=`, with the values of the run: `--config=conf/{x}.yaml`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from plat.plain_files import read_json_value
from plat.plugins.plugin_code import DIGITS
from plat.trainer.script.command import WRITTEN, arguments, command_of, placeholders
from plat.trainer.script.config import ScriptRunConfig
from plat.trainer.script.placeholders import filled_words

FUNCTION_MODULE = "function of"  # stands before a module as `-m` does
MODULES = ("-m", FUNCTION_MODULE)
SHELLS = ("sh", "bash", "zsh", "dash", "ksh")
# Outside of the script's folder only these count: data there may be large, and programs are no code of the user.
CODE = (".py", ".sh", ".R", ".jl", ".pl", ".js", ".rb", ".yaml", ".yml", ".toml", ".json", ".cfg", ".ini")
SHELL_SCRIPTS = (".sh", ".bash")
LIMIT = 1 << 20  # bytes; a larger file is no script
_INSTALLED = {"site-packages", "dist-packages"}


class NamedFile(NamedTuple):
    """A file that a command names: as `text`, "" for a module. `roots`: where Python looks for its imports."""

    path: Path
    roots: tuple[Path, ...]
    place: Path  # where it runs
    text: str = ""


def named_files(config: ScriptRunConfig) -> Iterator[NamedFile]:
    """Yield the files that the command of a run names, in its order."""
    script, folder = config.script, Path(config.script.folder)
    parts = command_of(script)
    values = arguments(config) if placeholders(script) else {}  # else the seed would be read, and files found per run
    words = [text for word in parts.words for text in filled_words(word, values, lambda inside: [inside])]
    called = [FUNCTION_MODULE, script.function.partition(":")[0]] if script.function else []
    search = [folder / part for part in parts.variables.get("PYTHONPATH", "").split(os.pathsep) if part]
    texts = (text for word in parts.variables.values() for text in filled_words(word, values, lambda inside: [inside]))
    yield from _of_words([*words, *called, *texts], folder, folder, search)


def _of_words(
    words: Sequence[str], place: Path, folder: Path, search: Sequence[Path], seen: frozenset[Path] = frozenset()
) -> Iterator[NamedFile]:
    """Yield the files of words. `seen`: the shell scripts that led to them."""
    before, shell = "", False
    for word in words:
        if shell and re.fullmatch(r"-\w*c", before):
            yield from _of_words(_inner_words(word), place, folder, search, seen)
        elif before in ("-C", "--chdir", "cd") or word.startswith("--chdir="):  # of `env`, and of a shell
            place = place / word.removeprefix("--chdir=")
        roots = tuple(dict.fromkeys([place, folder, *search]))
        if before in MODULES:
            for path in [
                file for root in roots for name in (word, f"{word}.__main__") for file in files_of(name, root)
            ]:
                yield NamedFile(path, roots, place)
        elif "{" not in word and not WRITTEN.fullmatch(word.partition("=")[0] if "=" in word else before):
            for path, text in _existing(word, roots[:2]):
                if path.is_file() and _counts(path, folder):
                    yield NamedFile(path, tuple(dict.fromkeys([path.parent, *roots])), place, text)
                    if path.suffix in SHELL_SCRIPTS and path not in seen and path.stat().st_size < LIMIT:
                        inside = _inner_words(path.read_text("utf-8", "replace"))
                        for file in _of_words(inside, place, folder, search, seen | {path}):
                            yield file._replace(text="")  # the command does not spell it
        shell = shell or Path(word).name in SHELLS
        before = word


def _inner_words(text: str) -> list[str]:
    """Return the words of a script for a shell, `;` and the like apart."""
    reader = shlex.shlex(text, posix=True, punctuation_chars=True)
    reader.whitespace_split = True
    try:
        return list(reader)
    except ValueError:
        return text.split()


def _existing(word: str, places: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the paths that a word may name, as it spells them: the word itself, and what follows `=` or `@`."""
    for text in dict.fromkeys([word, word.partition("=")[2], word.rpartition("=")[2], word.lstrip("@")]):
        if text and "\0" not in text and len(text) < 4096:
            yield from ((place / text, text) for place in places)


def _counts(path: Path, folder: Path) -> bool:
    if path.resolve().is_relative_to(folder.resolve()):
        return True
    return path.suffix in CODE and not _INSTALLED & set(path.parts)


def files_of(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a dotted module below a folder, and the `__init__.py` of the packages above it."""
    place = root
    for part in name.split("."):
        if not part.isidentifier():
            return
        place = place / part
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield file


# Hash files. The hashes of large ones are remembered in the user's cache folder, so that each is read once.
#
# A remembered hash is used only while the file's inode, size and both times are those under which it was read. You may
# delete the folder at any time.

CHUNK = 1 << 20  # bytes read at once
LARGE = 16 << 20  # bytes; smaller files are read each time, which takes some milliseconds
YOUNG = 2.0  # seconds; a file that has just changed may change again without a new time


def file_hash(path: Path) -> str:
    """Return the first DIGITS digits of the SHA-256 of a file. Raises OSError if it cannot be read."""
    if path.stat().st_size < LARGE:
        return _digest(path)
    kept, before = _place(path), _state(path)
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = read_json_value(kept)
        if known["state"] == before and len(known["hash"]) == DIGITS:
            return str(known["hash"])
    digest = _digest(path)
    if _state(path) == before and time.time() - before[2] / 1e9 > YOUNG:
        scratch = kept.with_name(f".tmp-{os.getpid()}-{kept.name}")
        with contextlib.suppress(OSError):  # the cache is only for speed
            kept.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_text(json.dumps({"path": str(path), "state": before, "hash": digest}))
            scratch.replace(kept)
    return digest


def _place(path: Path) -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "plat", "file-hashes")
    return folder / f"{hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]}.json"


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()[:DIGITS]
