"""Handle Ctrl-C: end a process outside of a verb at once, and recognise errors that an interruption caused."""

import contextlib
import os

INTERRUPTED = 130  # exit code after Ctrl-C, as a shell reports it
MESSAGE = b"interrupted; nothing recorded is lost\n"


def leave(number: int, frame: object) -> None:
    """Handle a signal: print MESSAGE and exit with the code of an interruption."""
    with contextlib.suppress(OSError):
        os.write(2, MESSAGE)
    os._exit(INTERRUPTED)


def was_interrupted(error: BaseException) -> bool:
    """Return True if Ctrl-C caused the error. An interrupted import may end with another error, e.g. RuntimeError."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, KeyboardInterrupt):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False
