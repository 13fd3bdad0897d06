"""Inside an actor: `python -m plat.dispatch.ray.task FOLDER TASK RESTART PARENT` does the runs of one task.

The kernel sends SIGTERM when the actor's process ends, whatever way; on SIGTERM the runs save a checkpoint and stop.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from plat.dispatch.task import Task
from plat.errors import PlatError
from plat.runner.process_tree import signal_when_parent_ends
from plat.store.submissions import Submission


def main(folder: str, number: int, restart: int, parent: int) -> int:
    """Do the runs of a task; the exit code, 1 when it could not begin."""
    signal_when_parent_ends(signal.SIGTERM)
    if os.getppid() != parent:  # it ended before we asked
        return 1
    try:
        Task(Submission(Path(folder)), number, restart).do_runs(signal.SIGTERM, signal.SIGINT)
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
