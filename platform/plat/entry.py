"""Where the `plat` script begins: Ctrl-C is dealt with before anything else is imported.

Importing the command line takes a tenth of a second. A KeyboardInterrupt in the middle of an import would be printed as
a traceback.
"""

import signal

from plat.interrupt import leave


def main() -> None:
    """Entry point of the `plat` script; always leaves through SystemExit."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a background job
        signal.signal(signal.SIGINT, leave)
    from plat.cli import main as command_line

    command_line()
