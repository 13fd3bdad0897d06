"""Errors of the operating system in plat's words, for the command line and the Python API."""

from __future__ import annotations

import errno

from plat.errors import HomeError, PlatError, SpecError

MIXED_UP = (errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.ELOOP)
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def in_our_words(error: OSError) -> PlatError | None:
    """Return the error to show for a name that is too long, a full disk, a refusal and the like; None for others."""
    name = str(error.filename or "")
    if error.errno == errno.ENAMETOOLONG:
        return SpecError("a file name that is too long", where=_cut(name) or None, fix="give a shorter one")
    if error.errno in MIXED_UP and name:
        what = f"there is a file where a folder is needed, or a folder where a file is needed: {error.strerror}"
        return HomeError(what, where=name, fix="move away what is there, then give the same command again")
    if error.errno in REFUSED:
        fix = "free some disk space or fix the permissions, then give the same command again"
        fix += "; or choose another home with --home DIR"
        return HomeError(f"cannot read or write: {error.strerror}", where=name or None, fix=fix)
    return None


def _cut(text: str, room: int = 100) -> str:
    """Return the text, or its beginning and end if it is longer than `room`."""
    return text if len(text) <= room else f"{text[: room // 2]}...{text[-room // 4 :]}"
