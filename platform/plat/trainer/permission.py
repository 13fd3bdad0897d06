"""Decide whether a file may name code as `module:ATTRIBUTE`: importing it runs it.

It may if the user allows it for a command (`--allow-import`), or for folders (`plat trust FOLDER`). Trust counts only
if all files that the command reads lie in trusted folders. The list of folders is read when such code is first named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from plat.errors import SpecError
from plat.plain_files import read_bytes
from plat.switches import is_on
from plat.trainer.plugins import ALLOW_IMPORT

# Set when trust has allowed the files of this command. The processes that execute runs inherit it.
TRUSTED = "PLAT_TRUSTED_FILES"
TYPED = Path("command-line")  # what is typed without a file counts as a file of the current folder
LARGEST = 1 << 20  # bytes of the list
_read: list[Path] = []  # the files that this command reads


def begin_command() -> None:
    """Forget the files of an earlier command in this process, and what trust allowed them."""
    _read.clear()
    os.environ.pop(TRUSTED, None)


def reads(files: Iterable[Path]) -> None:
    """Note files that this command reads: trust is decided over all of them."""
    new = [file for file in files if file not in _read]
    if new:
        _read.extend(new)
        os.environ.pop(TRUSTED, None)


def is_allowed() -> bool:
    """Return True if the files of this command may name code; SpecError if the list of folders cannot be read."""
    if is_on(ALLOW_IMPORT) or is_on(TRUSTED):
        return True
    if not _read or untrusted_folder() is not None:
        return False
    os.environ[TRUSTED] = "1"
    return True


def untrusted_folder() -> Path | None:
    """Return the first folder with a file of this command that is not trusted, None if there is none.

    A file lies in the folder of its name, and in that to which a link leads. Raises SpecError if the list of folders
    cannot be read.
    """
    folders = trusted_folders()
    # By its name, too: the code is found beside the name, and anybody can make a link to a trusted file.
    places = (place for file in _read for place in (file.parent, Path(os.path.realpath(file)).parent))
    return next((place for place in places if not _is_trusted(place, folders)), None)


def list_of_folders() -> Path:
    """Return the file that lists the trusted folders of this user; it may not exist."""
    config = os.environ.get("XDG_CONFIG_HOME", "")
    folder = config if os.path.isabs(config) else os.path.expanduser("~/.config")
    return Path(folder, "plat", "trusted-folders.txt")


def trusted_folders() -> list[Path]:
    """Return the trusted folders; SpecError if their list cannot be read or is damaged."""
    path = list_of_folders()
    try:
        lines = read_bytes(path, LARGEST).splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        what = f"cannot read the list of trusted folders: {error.strerror or error}"
        raise SpecError(what, where=str(path), fix="make it a readable file, or remove it") from error
    for number, line in enumerate(lines, 1):
        if not line.startswith(b"/") or b"\0" in line:
            what = "the list of trusted folders is damaged: this line is no absolute path"
            raise SpecError(what, where=f"{path}:{number}", fix="remove the line, or the whole file")
    return [Path(os.fsdecode(line)) for line in lines]


def _is_trusted(place: Path, folders: Sequence[Path]) -> bool:
    """Return True if a folder is trusted, or lies in a trusted one."""
    real = Path(os.path.realpath(place))
    return any(real.is_relative_to(folder) for folder in folders)
