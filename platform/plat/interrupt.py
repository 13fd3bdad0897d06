"""What Ctrl-C does outside of a verb: it ends the process at once, without a word of Python's."""

import contextlib
import os

INTERRUPTED = 130  # exit code after Ctrl-C, as a shell reports it
MESSAGE = b"interrupted; nothing recorded is lost\n"


def leave(number: int, frame: object) -> None:
    """A signal handler that ends the process with the exit code of an interruption."""
    with contextlib.suppress(OSError):
        os.write(2, MESSAGE)
    os._exit(INTERRUPTED)
