"""What comes out of a verb that did not end well: the exit code for it, and the words on stderr."""

from __future__ import annotations

import errno
import shlex
import traceback

from plat.cli.exit_codes import PIPE_CLOSED, RUNS_FAILED
from plat.cli.output import tell
from plat.cli.settings import settings
from plat.errors import HomeError, PlatError, SpecError, StoreError
from plat.interrupt import INTERRUPTED


def explain(error: BaseException, arguments: list[str]) -> int:
    """Say on stderr what went wrong, as far as there is anybody to read it; the exit code."""
    if isinstance(error, PlatError):
        return _show(error)
    if isinstance(error, OSError):
        return _explain_os_error(error, arguments)
    if _was_interrupted(error):
        tell("interrupted; nothing recorded is lost")
        return INTERRUPTED
    return _explain_mistake(error, arguments)


def _explain_os_error(error: OSError, arguments: list[str]) -> int:
    if error.errno == errno.EPIPE:
        return PIPE_CLOSED
    if error.errno == errno.EIO and error.filename is None:  # the terminal was closed
        return INTERRUPTED
    name = str(error.filename or "")
    if error.errno == errno.ENAMETOOLONG:
        return _show(SpecError("a file name that is too long", where=_cut(name) or None, mend="give a shorter one"))
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ELOOP) and name:
        return _show(
            HomeError(
                f"a folder and a file are in each other's place: {error.strerror}",
                where=name,
                mend="move away what is there, then give the same command again",
            )
        )
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM):
        return _show(
            HomeError(
                f"cannot read or write: {error.strerror}",
                where=name or None,
                mend="free some disk space or mend the permissions, then give the same command again; "
                "or choose another home with --home DIR",
            )
        )
    return _explain_mistake(error, arguments)


def _show(error: PlatError) -> int:
    """Show it; 2, or 3 when the home or the store gave way after runs had begun: then something was done."""
    tell(error.render())
    if settings.verbose:
        traceback.print_exception(error)
    return RUNS_FAILED if settings.dispatched and isinstance(error, HomeError | StoreError) else error.exit_code


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


def _cut(text: str, room: int = 100) -> str:
    """A text of which only the beginning and the end are shown when it is long."""
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-room // 4 :]}"


def usage_error(error: Exception, arguments: list[str]) -> SpecError:
    """What the parser of the command line complains about, in our three lines."""
    from plat.cli.usage import advice, in_words
    from plat.cli.verbs import GROUPS, VERBS

    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    verb = f"plat {arguments[0]}" if arguments and arguments[0] in {**VERBS, **GROUPS} else "plat"
    command = context.command_path if context is not None else verb
    mend = f"see `{command} --help`"
    better = advice(message, arguments)
    mend = mend if better is None else f"{better}; {mend}"
    return SpecError(in_words(message.rstrip(".")), where=f"the command line: plat {shlex.join(arguments)}", mend=mend)


def _explain_mistake(error: BaseException, arguments: list[str]) -> int:
    """A mistake in plat: one line, with the traceback in a file (on stderr with -v)."""
    if settings.verbose:
        traceback.print_exception(error)
        return 1
    tell(f"error: a mistake in plat itself: {type(error).__name__}: {error}")
    tell(f"   at: traceback in {_saved(error, arguments)}")
    tell("  fix: give the same command again to go on; -v shows the traceback")
    return 1


def _saved(error: BaseException, arguments: list[str]) -> str:
    """The new file, which only this user can read, with the command and its traceback, passwords left out."""
    import tempfile

    from plat.store.mlflow.uri import mask_passwords

    text = f"$ plat {' '.join(arguments)}\n{''.join(traceback.format_exception(error))}"
    try:
        handle, path = tempfile.mkstemp(prefix="plat-error-", suffix=".txt", text=True)
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(mask_passwords(text))
    except OSError:
        return "(could not be saved; use -v)"
    return path
