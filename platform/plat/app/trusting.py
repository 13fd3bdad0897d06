"""Change the list of folders whose files may name code (`plat.trainer.permission` reads it)."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from plat.errors import HomeError, SpecError, os_errors_as
from plat.store.disk.durable import locked, write
from plat.trainer.permission import begin_command as begin_command  # for `plat.api`
from plat.trainer.permission import list_of_folders, trusted_folders

CANNOT = "cannot change the list of trusted folders"
FIX = "make the folder and the file writable, or set XDG_CONFIG_HOME to another folder"


def trust(folder: Path) -> Path:
    """Add a folder to the list, and return where it really lies. Nothing changes if it is listed.

    Raises SpecError if the folder does not exist, contains the user's home folder or may be changed by every user of
    the machine, and if the list is damaged or cannot be written.
    """
    place = _checked(folder)
    _change(lambda folders: folders if place in folders else [*folders, place])
    return place


def forget(folder: Path) -> Path:
    """Remove a folder, which may not exist any more, from the list, and return it as it was listed.

    Raises SpecError if it is not listed, and if the list is damaged or cannot be written.
    """
    known = trusted_folders()
    names = (Path(os.path.realpath(folder)), Path(os.path.abspath(folder)))  # a loop of links has a name, too
    place = next((name for name in names if name in known), None)
    if place is None:
        above = next((listed for listed in known if names[0].is_relative_to(listed)), None)
        fix = f"plat trust --remove {above}" if above else "`plat trust` lists the trusted folders"
        what = "it is trusted because a folder above it is" if above else "this folder is not trusted"
        raise SpecError(what, where=str(folder), fix=fix)
    _change(lambda folders: [listed for listed in folders if listed != place])
    return place


def _checked(folder: Path) -> Path:
    """Return the real path of a folder that may be trusted."""
    if not folder.is_dir():
        what = "this is a file, not a folder" if folder.exists() else "no such folder"
        fix = f"plat trust {folder.parent}" if folder.exists() else "name a folder with experiment files"
        raise SpecError(what, where=str(folder), fix=fix)
    place = folder.resolve()
    fix = "name a folder below it that has only your experiment files and their code"
    if Path(os.path.expanduser("~")).resolve().is_relative_to(place):
        raise SpecError("this folder is too large to trust: your home folder is in it", where=str(place), fix=fix)
    if place.stat().st_mode & stat.S_IWOTH:
        raise SpecError("every user of this machine can put files into this folder", where=str(place), fix=fix)
    if "\n" in str(place) or "\r" in str(place):
        raise SpecError("the folder's name has a line break", where=repr(str(place)), fix="rename it")
    return place


def _change(edit: Callable[[list[Path]], list[Path]]) -> None:
    """Replace the list of folders by what `edit` makes of it."""
    path = list_of_folders()
    with os_errors_as(SpecError, CANNOT, path, FIX):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locked(path.with_name(".trusted-folders.lock")), os_errors_as(SpecError, CANNOT, path, FIX):
            before = trusted_folders()
            after = edit(before)
            if after != before:
                # not in place of a link: the list may be kept elsewhere, among a user's other settings
                write(Path(os.path.realpath(path)), b"".join(os.fsencode(folder) + b"\n" for folder in after))
    except HomeError as error:  # of the lock
        raise SpecError(CANNOT, where=str(path), fix=FIX) from error
