"""The levels of the sandbox: their order, whether this machine has them, and what a run records about them."""

from __future__ import annotations

import ctypes
import functools
import platform
import re
import shutil
import subprocess
from contextlib import AbstractContextManager

from plat_envs.environment_errors import BadEnvironment, ServiceError, check_choice
from plat_envs.sandbox import commands
from plat_envs.sandbox.box import Box
from plat_envs.sandbox.inside import landlock
from plat_envs.sandbox.probe import Opened, hostile_successes
from plat_envs.sandbox.program import Limits
from plat_envs.sandbox.remote import RemoteBox

ORDER = ("namespaces", "landlock", "remote")
LIMITS_ONLY = "limits_only"
LEVELS = (*ORDER, LIMITS_ONLY)
FIXES = {
    "namespaces": "apt-get install bubblewrap, or leave out --level",
    "landlock": "a kernel of Linux 5.13 or later that has Landlock, or leave out --level",
    "remote": "name a grader that answers: --level remote --url URL",
}
FIX = "apt-get install bubblewrap, or name a grader (--level remote --url URL)"


def open_box(level: str, limits: Limits, url: str | None = None) -> AbstractContextManager[Opened]:
    """Return a box of a level. Raises BadEnvironment if it does not start."""
    if level == "remote":
        assert url is not None
        return RemoteBox(url, limits)
    return Box(level, limits)


def choose(level: str | None = None, url: str | None = None, *, for_language_model: bool = False) -> str:
    """Return the level if it can be had, by default the first one of the order.

    `limits_only` stops nobody who wants out, so it has to be named, and nothing that a language model wrote may run in
    it. Raises BadEnvironment if the level, or each of them, cannot be had, and ServiceError if a grader that is needed
    does not answer.
    """
    if level is not None:
        check_choice("the level of the sandbox", level, LEVELS)
        if level == LIMITS_ONLY and for_language_model:
            raise BadEnvironment("limits_only is refused for programs of a language model", fix=FIX)
        if problem := problem_of(level, url if level == "remote" else None):
            raise BadEnvironment(f"the sandbox cannot have the level {level}: {problem}", fix=FIXES.get(level, FIX))
        return level
    problems = {}
    for name in ORDER:
        if (problem := problem_of(name, url if name == "remote" else None)) is None:
            return name
        problems[name] = problem
    told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
    raise BadEnvironment(f"no level of the sandbox can be had ({told})", fix=FIX)


@functools.cache
def problem_of(level: str, url: str | None = None) -> str | None:
    """Return why a level cannot be had; None if it can. Tries it with hostile programs, once in each process.

    Raises ServiceError if the grader does not answer. Later it may, so the next call asks again.
    """
    if level == "remote" and url is None:
        return "no URL is named"
    try:
        if level != "remote":
            commands.check_machine()
        if level == LIMITS_ONLY:
            return None
        succeeded = hostile_successes(lambda limits: open_box(level, limits, url))
    except ServiceError:
        raise
    except BadEnvironment as error:
        return error.what
    return f"a hostile program {' and '.join(succeeded)}" if succeeded else None


def provenance(level: str, url: str | None = None) -> dict[str, str | int]:
    """Return what decides how programs are run: the level, the version of Python, and that of the means."""
    facts: dict[str, str | int] = {"level": level}
    if level == "remote":
        assert url is not None
        return {**facts, "url": url}
    facts |= {"python": platform.python_version(), "kernel": platform.release()}
    if level == "landlock":
        facts["landlock"] = landlock.version(ctypes.CDLL(None, use_errno=True))
    if level == "namespaces" and (program := shutil.which("bwrap")):
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        facts["bubblewrap"] = re.sub(r"[^\d.]", "", said)
    return facts
