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
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from plat.cli.exit_codes import PIPE_CLOSED, RUNS_FAILED
from plat.errors import HomeError, PlatError, SpecError, StoreError
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


def _was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind an error: a library interrupted while it is imported may turn that into another one."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, KeyboardInterrupt):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def _guarded(arguments: list[str]) -> int:
    """Run one verb and turn whatever comes out of it into an exit code and, on stderr, into words."""
    from plat.cli.output import tell
    from plat.cli.settings import settings
    from plat.trainer.plugins import ALLOW_IMPORT

    settings.verbose = settings.dispatched = settings.concluded = False
    allowed = os.environ.get(ALLOW_IMPORT)  # --allow-import of one call is not for the next in this process
    try:
        with _ctrl_c(signal.default_int_handler):
            code = _verb(arguments)
        if code == INTERRUPTED and not settings.concluded:  # typer's own end on Ctrl-C, which says nothing
            raise KeyboardInterrupt
        return code
    except PlatError as error:
        return _say(error)
    except KeyboardInterrupt:
        tell("interrupted; nothing recorded is lost")
        return INTERRUPTED
    except SystemExit as stop:  # typer leaves this way when the pipe is closed
        cause = stop.__context__
        if isinstance(cause, OSError) and cause.errno == errno.EPIPE:
            return PIPE_CLOSED
        return stop.code if isinstance(stop.code, int) else 1
    except OSError as error:
        if error.errno == errno.EPIPE:
            return PIPE_CLOSED
        if error.errno == errno.EIO and error.filename is None:  # the terminal was closed
            return INTERRUPTED
        if error.errno == errno.ENAMETOOLONG:
            name = str(error.filename or "")
            return _say(SpecError("a file name that is too long", where=_cut(name) or None, mend="give a shorter one"))
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
            return _say(
                HomeError(
                    f"cannot read or write: {error.strerror}",
                    where=str(error.filename or "") or None,
                    mend="free some disk space or mend the permissions, then give the same command again; "
                    "or choose another home with --home DIR",
                )
            )
        return _unexpected(error, arguments)
    except Exception as error:
        if _was_interrupted(error):
            tell("interrupted; nothing recorded is lost")
            return INTERRUPTED
        return _unexpected(error, arguments)
    finally:
        os.environ.pop(ALLOW_IMPORT, None)
        if allowed is not None:
            os.environ[ALLOW_IMPORT] = allowed


def _verb(arguments: list[str]) -> int:
    from typer import TyperException

    from plat.cli.verbs import application

    _refuse_empty(arguments)
    try:
        return application()(args=arguments, prog_name="plat", standalone_mode=False) or 0
    except TyperException as error:  # a misspelt verb or option
        raise _usage_error(error, arguments) from error


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


def _say(error: PlatError) -> int:
    """Show it; 2, or 3 when the home or the store gave way after runs had begun: then something was done."""
    from plat.cli.output import tell
    from plat.cli.settings import settings

    tell(error.render())
    if settings.verbose:
        traceback.print_exception(error)
    return RUNS_FAILED if settings.dispatched and isinstance(error, HomeError | StoreError) else error.exit_code


def _cut(text: str, room: int = 100) -> str:
    """A text of which only the beginning and the end are shown when it is long."""
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-room // 4 :]}"


def _usage_error(error: Exception, arguments: list[str]) -> SpecError:
    """The parser's complaint, in our three lines."""
    from plat.cli.verbs import GROUPS, VERBS

    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    verb = f"plat {arguments[0]}" if arguments and arguments[0] in {**VERBS, **GROUPS} else "plat"
    command = context.command_path if context is not None else verb
    mend = f"see `{command} --help`"
    if message.startswith("No such option: --seed"):
        mend = f"seeds are an axis of the file, so an override: 'matrix.seed=range(5)'; {mend}"
    return SpecError(message.rstrip("."), where=f"the command line: plat {shlex.join(arguments)}", mend=mend)


def _unexpected(error: BaseException, arguments: list[str]) -> int:
    """A mistake in plat: one line, with the traceback in a file (on stderr with -v)."""
    import tempfile

    from plat.cli.output import tell
    from plat.cli.settings import settings

    if settings.verbose:
        traceback.print_exception(error)
        return 1
    name = f"plat-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    path = os.path.join(tempfile.gettempdir(), name)
    try:
        with open(path, "w", encoding="utf-8") as file:
            print(f"$ plat {' '.join(arguments)}", file=file)
            traceback.print_exception(error, file=file)
    except OSError:
        path = "(could not be saved; use -v)"
    tell(f"error: a mistake in plat itself: {type(error).__name__}: {error}")
    tell(f"   at: traceback in {path}")
    tell("  fix: give the same command again to go on; -v shows the traceback")
    return 1
