"""A grader behind HTTP that the user names. It only runs programs: what comes back is compared here.

It gets a POST of one JSON object: `program`, `function` (or null), `stdins` (for a function: its arguments as JSON)
and `limits`. It answers with `{"outcomes": [...]}`, one object for each input with `status`, `stdout`, and perhaps
`stderr`, `exit_code`, `cpu_seconds` and `wall_seconds`, which are fields of `plat_envs.sandbox.program.Outcome`.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException
from typing import Any, get_args
from urllib.parse import urlsplit

from plat_envs.environment_errors import BadEnvironment, ServiceError
from plat_envs.sandbox.program import Limits, Outcome, Program, Status
from plat_envs.server_words import check_parts, one_line, said

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
