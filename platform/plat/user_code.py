"""Call the code of other packages, and report its errors with their file and line.

A trainer, an environment, a report builder or a check may raise anything. Its author needs the line that failed, not
plat's traceback.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from plat.errors import PlatError, PluginError
from plat.moved_modules import own_packages
from plat.processes.interrupt import was_interrupted

PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})  # below Python's own


@contextlib.contextmanager
def user_code(title: str, fix: str | None = None) -> Iterator[None]:
    """Turn an exception of the block into a PluginError at the file and line of the code that raised it.

    PlatError, KeyboardInterrupt and MemoryError pass unchanged; others, such as SystemExit, do not. An error caused by
    Ctrl-C becomes a KeyboardInterrupt. `title` says what failed, e.g. "the trainer 'mine' cannot be loaded".
    """
    try:
        yield
    except (PlatError, KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        what = f"{title}: {in_words(error)}"
        raise PluginError(what, where=place_of(error, behind=2), fix=fix or "fix the code there") from error


def in_words(error: BaseException) -> str:
    """Return the type and the message of an exception in one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    try:
        message = " ".join(str(error).split())[:300]
    except Exception:  # of the exception's own code
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place_of(error: BaseException, behind: int = 0) -> str | None:
    """Return the `file:line` in a user's package at which an error was raised, or None if no such package was called.

    The outermost frame of the traceback that is neither plat's nor Python's determines the package. The result is the
    innermost frame in this package. For a SyntaxError, it is the line that cannot be parsed.

    behind  number of outermost frames to ignore, because they belong to the caller
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno or 1}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__)[behind:] if _is_foreign(frame.filename)]
    if not frames:
        return None
    package = _package(frames[0].filename)
    inner = [frame for frame in frames if frame.filename.startswith(package)][-1]
    return f"{inner.filename}:{inner.lineno}"


def _is_foreign(file: str) -> bool:
    """Return True if a file belongs neither to plat nor to Python."""
    if not os.path.isabs(file):  # e.g. <frozen importlib>
        return False
    modules = (sys.modules.get(name) for name in own_packages())
    ours = tuple(os.path.dirname(module.__file__) + os.sep for module in modules if module and module.__file__)
    return not file.startswith(ours) and (file.startswith(SITE) or not file.startswith(PYTHON))


def _package(file: str) -> str:
    """Return the path prefix of a file's package: its top-level folder in site-packages, else the file's folder."""
    for site in SITE:
        if file.startswith(site):
            return site + file.removeprefix(site).partition(os.sep)[0]
    return os.path.dirname(file) + os.sep


def position_of(name: str) -> str:
    """Return `file:line` of an imported module's attribute, e.g. of "my_package.dispatcher:SPEC".

    The line is that of its assignment or class, else 1. Returns the name if the module has no file or is not imported.
    """
    module, _, attribute = name.partition(":")
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return name
    with open(file, encoding="utf-8", errors="replace") as lines:
        pattern = re.compile(rf"(class )?{re.escape(attribute)}\s*[:=(]")
        assigned = [number for number, line in enumerate(lines, 1) if pattern.match(line)]
    return f"{file}:{assigned[-1] if assigned else 1}"


def definition_of(function: Callable[..., Any]) -> str | None:
    """Return `file:line` where a function is defined, or None if Python does not know."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
