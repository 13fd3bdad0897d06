"""Start the `plat` script. Ctrl-C is handled before anything else is imported.

Importing the command line takes a tenth of a second, and a KeyboardInterrupt during an import prints a traceback.
"""

import signal
import sys

from plat.processes.interrupt import leave


def main() -> None:
    """Run the `plat` script. Ends with SystemExit, with code 2 if this is not Linux."""
    if sys.platform != "linux":
        print(f"error: plat runs on Linux, and this is {sys.platform}", file=sys.stderr)
        print("  fix: use a Linux machine, a container, or WSL on Windows", file=sys.stderr)
        sys.exit(2)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as in a background job
        signal.signal(signal.SIGINT, leave)
    from plat.cli import main as command_line

    command_line()
