"""What lies where a SQLite store keeps its file and its artifacts: something of another kind is named, with the cure.

A pipe in place of the file would be waited for, and SQLite speaks of rights where there is a folder. In place of the
folder of artifacts, nothing is noticed before a run is imported.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from plat.errors import StoreError

ARTIFACTS = "mlartifacts"  # beside the file
FOLDER = "a folder"
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, FOLDER),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def check_place(path: Path) -> None:
    """StoreError when there is something else than a file at `path`, or than a folder where its artifacts belong.

    Nothing needs to be there.
    """
    kind = _kind(path)
    if kind not in ("", "a file"):
        raise StoreError(
            f"the store's file is {kind}",
            where=str(path),
            mend="move it away, and `plat sync` fills a new store from the run directories; "
            "or choose another with --store",
        )
    artifacts = path.parent / ARTIFACTS
    kind = _kind(artifacts) or ("a link that leads nowhere" if artifacts.is_symlink() else "")
    if kind not in ("", FOLDER):
        raise StoreError(
            f"the folder of the store's artifacts is {kind}",
            where=str(artifacts),
            mend="move it away, and `plat doctor --mend` brings the artifacts back from the run directories",
        )


def _kind(path: Path) -> str:
    """What this is, in words; "" when nothing is there, or it cannot be looked at."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return ""
    return next((name for holds, name in _KINDS if holds(mode)), "a device")
