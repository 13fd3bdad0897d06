"""The guard of a run's own Ray: a small process that outlives the run's process, only to clear up after it.

Ray's daemons notice one after the other that the process which started them is gone; the last need a minute, and nobody
removes Ray's folder. The guard waits for the end of a pipe that only the run's process holds. The kernel closes that
pipe however the process ends, also by SIGKILL; then the guard kills whatever was started inside `guarded`, which it
knows by a mark in the environment, and removes the folder. It leads a session of its own and ignores requests to end,
so a signal to the run's process group does not reach it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from plat.marked import READABLE, kill_marked

MARK = "PLAT_VERL_SCRATCH"  # the environment variable that names the folder of the Ray a process belongs to


@contextmanager
def guarded(folder: str) -> Iterator[str]:
    """Everything that the block starts ends, and the folder is removed, when the block or this process ends.

    The block gets the name of the folder, in which what it starts makes its temporary files, too. What should end in an
    orderly way must do so before the end of the block.
    """
    command = [sys.executable, "-m", "plat.trainer.verl.guard", folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as guard:
        tempfile.gettempdir()  # of this process; remembered before what it starts gets another
        before = os.environ.get("TMPDIR")
        os.environ.update({MARK: folder, "TMPDIR": folder, **READABLE})
        try:
            yield folder
        finally:
            del os.environ[MARK], os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before
            assert guard.stdin is not None
            guard.stdin.close()
            if guard.wait() != 0:  # somebody has killed it
                clear_up(folder)


def clear_up(folder: str) -> None:
    """Kill every process of the Ray in this folder, and remove the folder."""
    kill_marked(MARK, folder)
    shutil.rmtree(folder, ignore_errors=True)


def main(folder: str) -> None:
    """Wait for the end of the process at the other end of standard input, then clear up."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    clear_up(folder)


if __name__ == "__main__":
    main(sys.argv[1])
