"""The levels of the sandbox: their order, whether this machine has them, and what a run records about them."""

from __future__ import annotations

import ctypes
import functools
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from http.client import HTTPException
from pathlib import Path
from typing import Any, Protocol, get_args
from urllib.parse import urlsplit

from plat_envs.environment_errors import BadEnvironment, ServiceError, check_choice, check_parts, one_line, said
from plat_envs.sandbox import commands
from plat_envs.sandbox.box import Box
from plat_envs.sandbox.inside import confinement
from plat_envs.sandbox.program import Limits, Outcome, Program, Status

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
        facts["landlock"] = confinement.landlock_version(ctypes.CDLL(None, use_errno=True))
    if level == "namespaces" and (program := shutil.which("bwrap")):
        said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
        facts["bubblewrap"] = re.sub(r"[^\d.]", "", said)
    return facts


# A grader behind HTTP that the user names. It only runs programs: what comes back is compared here.
#
# It gets a POST of one JSON object: `program`, `function` (or null), `stdins` (for a function: its arguments as JSON)
# and `limits`. It answers with `{"outcomes": [...]}`, one object for each input with `status`, `stdout`, and perhaps
# `stderr`, `exit_code`, `cpu_seconds` and `wall_seconds`, which are fields of `plat_envs.sandbox.program.Outcome`.

ATTEMPTS = 4
FIRST_PAUSE = 0.25  # seconds; doubled after each attempt
STATUSES = get_args(Status)
PLAIN = re.compile("[!-~]+")  # the characters that the first line of a request may have


class RemoteBox:
    """A grader. Raises BadEnvironment for an address that is none, or has a part that no request carries."""

    def __init__(self, url: str, limits: Limits) -> None:
        if not _is_address(url):
            raise BadEnvironment(f"the grader's address is {url!r}", fix="an address such as http://127.0.0.1:8000")
        check_parts("the grader's address", url, with_query=True)
        self._url, self._limits = url, limits

    def __enter__(self) -> RemoteBox:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def run_each(self, program: Program, stdins: Sequence[bytes]) -> Iterator[Outcome]:
        """Run the program once for each input, in one request.

        Raises ServiceError if the grader does not answer, after some attempts, and BadEnvironment for a wrong answer.
        """
        question = {
            "program": program.source,
            "function": program.function,
            "stdins": [stdin.decode("utf-8", "surrogateescape") for stdin in stdins],
            "limits": {**vars(self._limits), "wall_seconds": self._limits.wall},
        }
        answer = self._ask(json.dumps(question).encode(), timeout=30 + len(stdins) * self._limits.wall)
        try:
            outcomes = [_outcome(item) for item in json.loads(answer)["outcomes"]]
            if len(outcomes) != len(stdins):
                raise ValueError(f"{len(outcomes)} outcomes for {len(stdins)} inputs")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
            what = f"the grader's answer cannot be read: {type(error).__name__}: {error}"
            raise BadEnvironment(what, where=self._url, fix="docs/sandbox.md describes the answer") from error
        return iter(outcomes)

    def _ask(self, body: bytes, timeout: float) -> bytes:
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        for attempt in range(ATTEMPTS):
            try:
                with urllib.request.urlopen(request, timeout=timeout) as answer:
                    return bytes(answer.read())
            except urllib.error.HTTPError as error:
                problem = f"it answered {error.code} {one_line(str(error.reason))}"
                if error.code < 500:
                    break
            except (OSError, HTTPException, ValueError) as error:  # ValueError: it names another address that is none
                problem = said(error)
            if attempt + 1 < ATTEMPTS:
                time.sleep(FIRST_PAUSE * 2**attempt)
        raise ServiceError(f"the grader does not answer: {problem}", where=self._url, fix="start it, or name another")


def _is_address(text: str) -> bool:
    try:
        address = urlsplit(text)
        known = address.scheme in ("http", "https") and address.port != 0
        return known and bool((address.hostname or "").encode("idna")) and bool(PLAIN.fullmatch(text))
    except ValueError:  # of a port that is no number, or of an empty part of a name
        return False


def _outcome(item: dict[str, Any]) -> Outcome:
    if item["status"] not in STATUSES:
        raise ValueError(f"status {item['status']!r}")
    stdout, stderr = item["stdout"], item.get("stderr", "")
    if not isinstance(stdout, str) or not isinstance(stderr, str):
        raise TypeError(f"stdout {stdout!r:.60} and stderr {stderr!r:.60} have to be texts")
    return Outcome(
        item["status"],
        stdout.encode("utf-8", "surrogatepass"),
        stderr,
        int(item.get("exit_code", 0)),
        float(item.get("cpu_seconds", 0.0)),
        float(item.get("wall_seconds", 0.0)),
    )


# Try a box with hostile programs before it is used: each tries one thing that a box must not allow.

LIMITS = Limits(cpu_seconds=2, wall_seconds=20, memory_bytes=256 << 20)
PROGRAM = Program("import sys\nexec(sys.stdin.read())\n")
HONEST = "print(6 * 7)"
DONE = b"it worked"
# What a hostile program did -> the program, which says so itself
HOSTILE = {
    "read a file of this machine": "print(open({secret!r}).read())",
    "read the environment of its parent": """
import os
if open(f"/proc/{{os.getppid()}}/environ").read(): print("it worked")
""",
    "reached the network": """
import socket
socket.create_connection(("127.0.0.1", {port}), 2); print("it worked")
""",
    "started a process": """
import os
if os.fork(): print("it worked")
""",
    "sent a signal to its parent": """
import os
os.kill(os.getppid(), 0); print("it worked")
""",
    "took more memory than it may": "data = bytearray(512 << 20); print('it worked')",
    "wrote a file of this machine": "open({written!r}, 'w').write('it worked')",
}


class Opened(Protocol):
    """An open box: it runs a program once for each input."""

    def run_each(self, program: Program, stdins: Sequence[bytes]) -> Iterator[Outcome]:
        """Run the program once for each input."""


def hostile_successes(open_box: Callable[[Limits], AbstractContextManager[Opened]]) -> list[str]:
    """Return what the hostile programs managed to do in a box; [] if nothing.

    Raises BadEnvironment if the box does not start, or does not run an honest program.
    """
    with tempfile.TemporaryDirectory(prefix="plat-probe-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o777)
        secret, written = Path(folder, "secret"), Path(folder, "written")
        secret.write_bytes(DONE)
        facts = {"secret": str(secret), "written": str(written), "port": server.getsockname()[1]}
        sources = [HONEST, *(source.format(**facts) for source in HOSTILE.values())]
        with open_box(LIMITS) as box:
            honest, *hostile = box.run_each(PROGRAM, [source.encode() for source in sources])
        if honest.status != "ok" or honest.stdout.strip() != b"42":
            last = honest.stderr.strip().rpartition("\n")[2]
            raise BadEnvironment(f"an honest program does not run in it ({last or honest.status})")
        succeeded = [what for what, outcome in zip(HOSTILE, hostile, strict=True) if DONE in outcome.stdout]
        return succeeded + [list(HOSTILE)[-1]] * written.exists()
