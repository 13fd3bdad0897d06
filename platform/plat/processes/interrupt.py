"""Handle Ctrl-C outside of a verb: end the process at once, without a traceback."""

import contextlib
import os

INTERRUPTED = 130  # exit code after Ctrl-C, as a shell reports it
MESSAGE = b"interrupted; nothing recorded is lost\n"


def leave(number: int, frame: object) -> None:
    """Handle a signal: print MESSAGE and exit with the code of an interruption."""
    with contextlib.suppress(OSError):
        os.write(2, MESSAGE)
    os._exit(INTERRUPTED)
