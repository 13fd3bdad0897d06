"""What a verb returns: data for programs, text for people, and an exit code; and how both are printed.

With `--json`, stdout has JSON alone: what a verb prints while it works goes to stderr. Most verbs print one document.
Verbs that take long print JSON lines, each an object with an `event`; the last has the event "result". An error is one
line with the event "error" for every verb.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, TextIO, TypeAlias, TypeVar

T = TypeVar("T")
Lazy: TypeAlias = T | Callable[[], T]  # a value, or a function that makes it when it is needed


@dataclass
class Settings:
    """Settings of one call.

    verbose  print more, and show tracebacks
    json     print JSON
    lines    print it as lines, because the verb takes long
    stream   where JSON goes; None: stdout
    """

    verbose: bool = False
    json: bool = False
    lines: bool = False
    stream: TextIO | None = None

    def reset(self) -> None:
        """Set every setting to its default."""
        self.verbose, self.json, self.lines, self.stream = False, False, False, None


settings = Settings()


@dataclass(frozen=True)
class Result:
    """What a verb has found or done.

    data  for `--json`: what the verb's schema describes (`plat schema VERB`)
    text  for people, without a line feed at its end; "" prints nothing
    code  the exit code
    then  what the verb goes on with after its result was printed, such as a server; returns the exit code
    """

    data: Lazy[Mapping[str, Any]]
    text: Lazy[str] = ""
    code: int = 0
    then: Callable[[], int] | None = None

    def show(self) -> int:
        """Print the result and return the exit code."""
        if settings.json:
            print_result(made(self.data))
        elif text := made(self.text):
            print(text, flush=self.then is not None)
        return self.code if self.then is None else self.then()


def called(function: Callable[[], Result | int], *, lines: bool) -> int:
    """Call the function of a verb, show its result and return the exit code. A plug-in may return the code itself."""
    if not settings.json:
        result = function()
    else:
        settings.stream, settings.lines = sys.stdout, lines
        with redirect_stdout(sys.stderr):
            result = function()
    return result if isinstance(result, int) else result.show()


def print_result(data: Mapping[str, Any]) -> None:
    """Print a result as one JSON document, or as the last JSON line."""
    if settings.lines:
        print_event("result", data)
    else:
        _print(json.dumps(plain(data), indent=2, default=str, allow_nan=False))


def print_event(event: str, data: Mapping[str, Any]) -> None:
    """Print one JSON line."""
    _print(json.dumps({"event": event, **plain(data)}, default=str, allow_nan=False))


def _print(text: str) -> None:
    print(text, file=settings.stream or sys.stdout, flush=True)


def plain(value: Any) -> Any:
    """Return a value that JSON has: NaN and infinities become None, tuples lists."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def made(value: Lazy[T]) -> T:
    """Return the value, or what its function makes."""
    return value() if callable(value) else value
