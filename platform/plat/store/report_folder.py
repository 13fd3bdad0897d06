"""The folder of a report in a home is replaced at once: a kill never leaves files of two reports in it.

A folder that a user names with `--out` may hold other files, so reports are written into it one file at a time.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from plat.errors import HomeError
from plat.store.durable import publish_folder, scratch_name

Write = Callable[[Path], dict[str, Path]]


def write_whole(write: Write, folder: Path) -> dict[str, Path]:
    """Have a report written beside its folder, and put it in the place of the earlier one; file name -> path.

    HomeError when that cannot be done; the earlier report then stays.
    """
    scratch = scratch_name(folder)
    try:
        names = write(scratch)
        publish_folder(scratch, folder)
    except OSError as error:
        raise HomeError(
            f"cannot replace the report: {error.strerror or error}",
            where=str(folder),
            mend="make the folder writable, or choose another with --out DIR",
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return {name: folder / name for name in names}
