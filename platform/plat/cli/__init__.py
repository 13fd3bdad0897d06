"""The command line `plat VERB ...`. Verbs parse arguments, call use cases and print results.

Every verb keeps these promises. Exit codes: 0 all fine; 2 bad input, nothing done; 3 some runs failed; 130 interrupted,
state safe; 1 a mistake in plat itself. A PlatError is shown as three lines, never as a traceback. A reader that closes
the pipe early gets no error message. Nothing heavy is imported before a verb needs it.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from plat.errors import SpecError
from plat.processes.interrupt import INTERRUPTED, leave


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the `plat` script with `arguments`, by default those of the process; always ends with SystemExit."""
    gc.set_threshold(50_000, 20, 20)  # a short verb mostly imports modules, which leaves no garbage to collect
    with _ctrl_c(leave):  # only a verb gets a KeyboardInterrupt, so that it can save its state
        from plat.cli import common, verb_list  # noqa: F401  # imported here, where Ctrl-C cannot interrupt it
        from plat.cli.screen import output

        output.make_streams_safe()
        code = _guarded(list(sys.argv[1:] if arguments is None else arguments))
        try:
            sys.stdout.flush()
        except OSError as error:  # the interpreter flushes again at exit, now to /dev/null
            code = code or (INTERRUPTED if error.errno == errno.EIO else common.PIPE_CLOSED)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


@contextlib.contextmanager
def _ctrl_c(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle Ctrl-C with `handler` in the `with` block, if in the main thread and if the current handler is ours."""
    before = signal.getsignal(signal.SIGINT)
    ours = before in (leave, signal.default_int_handler) and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)


def _guarded(arguments: list[str]) -> int:
    """Run one verb; return its exit code, and explain errors on stderr."""
    from plat.app.messages import printed_by, stage
    from plat.cli.common import PIPE_CLOSED
    from plat.cli.result import settings
    from plat.cli.screen.output import tell

    try:
        with _settings_of_one_call(), printed_by(tell), _ctrl_c(signal.default_int_handler):
            code = _verb(arguments)
        if code == INTERRUPTED and not stage.concluded:  # typer ends silently on Ctrl-C
            raise KeyboardInterrupt
        return code
    except SystemExit as stop:  # typer exits like this when the pipe is closed
        cause = stop.__context__
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            return PIPE_CLOSED
        return stop.code if isinstance(stop.code, int) else 1
    except (KeyboardInterrupt, Exception) as error:
        from plat.cli.screen.failure_words import explain

        return explain(error, arguments)
    finally:
        settings.stream = None


@contextlib.contextmanager
def _settings_of_one_call() -> Iterator[None]:
    """Reset global options, so that two calls in one process are independent."""
    from plat.cli.result import settings
    from plat.plugins.loading import ALLOW_IMPORT, restored

    settings.reset()
    allowed = os.environ.get(ALLOW_IMPORT)
    try:
        with restored():
            yield
    finally:
        os.environ.pop(ALLOW_IMPORT, None)
        if allowed is not None:
            os.environ[ALLOW_IMPORT] = allowed


def _verb(arguments: list[str]) -> int:
    from typer import TyperException

    from plat.cli.verb_list import application

    _refuse_empty(arguments)
    try:
        return application()(args=arguments, prog_name="plat", standalone_mode=False) or 0
    except TyperException as error:  # a misspelt verb or option
        from plat.cli.screen.failure_words import usage_error

        raise usage_error(error, arguments) from error


def _refuse_empty(arguments: list[str]) -> None:
    """Raise SpecError for an empty argument: as a path it would silently mean the working directory."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            name = argument.rstrip("=") or (before if before.startswith("-") else "an argument")
            fix = "give it a value, or leave it out; a shell variable that is not set is empty, too"
            raise SpecError(f"{name} is empty", where=f"the command line: plat {shlex.join(arguments)}", fix=fix)
