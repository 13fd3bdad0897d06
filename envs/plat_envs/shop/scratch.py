"""A folder for files that are being made. One that a killed process has left is removed by the next."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Make a folder below `parent` for the block; remove those whose process on this host has ended."""
    host = f"converting-{socket.gethostname()}-"  # other hosts may share `parent`: their processes are not seen here
    for left in parent.glob("converting-*"):
        owner = re.fullmatch(re.escape(host) + r"(\d+)-\w+", left.name)
        if owner and not _lives(int(owner[1])):
            shutil.rmtree(left, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{host}{os.getpid()}-", dir=parent) as folder:
        yield Path(folder)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:  # it is another user's
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True
