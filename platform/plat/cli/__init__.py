"""The command line: `plat VERB ...`. Verbs parse, call and print; what they call does the work.

Promised here, for every verb: exit code 0 (all fine), 2 (bad input, nothing done), 3 (some runs failed), 130
(interrupted, state safe), 1 (a mistake in plat itself); a PlatError is shown as its three lines and never as a
traceback; a reader that closes the pipe early gets no error message; and nothing heavy is imported before a verb
needs it.
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

from plat.cli.exit_codes import PIPE_CLOSED
from plat.errors import SpecError
from plat.interrupt import INTERRUPTED, leave


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `plat` script; always leaves through SystemExit."""
    gc.set_threshold(50_000, 20, 20)  # most of a short verb is imports, which leave no garbage to look for
    with _ctrl_c(leave):  # a verb alone gets a KeyboardInterrupt, and saves what it has to
        from plat.cli import common, output, verbs  # noqa: F401  # imported here, so that nothing interrupts that

        output.make_streams_safe()
        code = _guarded(list(sys.argv[1:] if arguments is None else arguments))
        try:
            sys.stdout.flush()
        except OSError as error:  # the interpreter flushes once more at exit; give it somewhere to flush to
            code = code or (INTERRUPTED if error.errno == errno.EIO else PIPE_CLOSED)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


@contextlib.contextmanager
def _ctrl_c(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Meanwhile Ctrl-C calls this handler, unless somebody else has decided what it does (or it is ignored)."""
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
    """Run one verb and turn whatever comes out of it into an exit code and, on stderr, into words."""
    from plat.cli.failures import explain
    from plat.cli.settings import settings

    try:
        with _settings_of_one_call(), _ctrl_c(signal.default_int_handler):
            code = _verb(arguments)
        if code == INTERRUPTED and not settings.concluded:  # typer's own end on Ctrl-C, which says nothing
            raise KeyboardInterrupt
        return code
    except SystemExit as stop:  # typer leaves this way when the pipe is closed
        cause = stop.__context__
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            return PIPE_CLOSED
        return stop.code if isinstance(stop.code, int) else 1
    except (KeyboardInterrupt, Exception) as error:
        return explain(error, arguments)


@contextlib.contextmanager
def _settings_of_one_call() -> Iterator[None]:
    """What the options of one call set is not for the next call in this process."""
    from plat.cli.settings import settings
    from plat.trainer.plugins import ALLOW_IMPORT

    settings.verbose = settings.dispatched = settings.concluded = False
    allowed = os.environ.get(ALLOW_IMPORT)
    try:
        yield
    finally:
        os.environ.pop(ALLOW_IMPORT, None)
        if allowed is not None:
            os.environ[ALLOW_IMPORT] = allowed


def _verb(arguments: list[str]) -> int:
    from typer import TyperException

    from plat.cli.failures import usage_error
    from plat.cli.verbs import application

    _refuse_empty(arguments)
    try:
        return application()(args=arguments, prog_name="plat", standalone_mode=False) or 0
    except TyperException as error:  # a misspelt verb or option
        raise usage_error(error, arguments) from error


def _refuse_empty(arguments: list[str]) -> None:
    """SpecError for an empty argument: as a path it would silently mean the working directory."""
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if not argument or (argument.startswith("--") and argument.endswith("=")):
            name = argument.rstrip("=") or (before if before.startswith("-") else "an argument")
            raise SpecError(
                f"{name} is empty",
                where=f"the command line: plat {shlex.join(arguments)}",
                mend="give it a value, or leave it out; a shell variable that is not set is empty, too",
            )
