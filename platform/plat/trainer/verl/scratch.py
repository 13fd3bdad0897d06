"""Folders in which the Ray of a run keeps its sockets and logs. Their names are short, because those of sockets are."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import psutil

SCRATCH = "plat-verl-"


def scratch_folder() -> str:
    """A new folder for a Ray of this process; those of processes that were killed are removed."""
    for folder in Path("/tmp").glob(f"{SCRATCH}*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)
    return tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-", dir="/tmp")
