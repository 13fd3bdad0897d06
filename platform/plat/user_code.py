"""Code of other packages, called so that its mistakes are named as theirs: what was called, in which file and line.

A trainer, an environment, a report builder or a check may raise anything. None of that is a mistake in plat, and the
person who wrote the code needs the line, not our traceback.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from plat.errors import PlatError, PluginError

_PYTHON = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib")})
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})  # below Python's own


@contextlib.contextmanager
def user_code(title: str, mend: str | None = None) -> Iterator[None]:
    """Turn whatever the block raises into a PluginError at the file and line of the code that raised it.

    A PlatError passes as it is: the code has said itself what is wrong. So do KeyboardInterrupt and MemoryError.

    title  what the block does, for example "the trainer 'mine' cannot be loaded"
    """
    try:
        yield
    except (PlatError, KeyboardInterrupt, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        what = f"{title}: {in_words(error)}"
        raise PluginError(what, where=place_of(error, behind=2), mend=mend or "mend the code there") from error


def in_words(error: BaseException) -> str:
    """The type and the message of an exception in one line."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    message = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def place_of(error: BaseException, behind: int = 0) -> str | None:
    """`file:line` of the innermost code of the package, or folder, that was called from here and raised the error.

    Of a SyntaxError the line that cannot be read. None when all of the code is plat's or Python's own. The outermost
    `behind` frames do not count: they called the code.
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
    """Whether a file is neither plat's nor Python's own."""
    if not os.path.isabs(file):  # such as <frozen importlib>
        return False
    modules = (sys.modules.get(name) for name in ("plat", "plat_analysis", "plat_envs"))
    ours = tuple(os.path.dirname(module.__file__) + os.sep for module in modules if module and module.__file__)
    return not file.startswith(ours) and (file.startswith(_SITE) or not file.startswith(_PYTHON))


def _package(file: str) -> str:
    """The beginning that all files of its package share: the top-level folder of an installed one, else its folder."""
    for site in _SITE:
        if file.startswith(site):
            return site + file.removeprefix(site).partition(os.sep)[0]
    return os.path.dirname(file) + os.sep


def definition_of(function: Callable[..., Any]) -> str | None:
    """`file:line` where a function is written; None where Python cannot tell."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
