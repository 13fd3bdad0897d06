"""Find the two versions that are judged: a command here, and another commit, folder or command."""

from __future__ import annotations

import contextlib
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from plat.app.first_file.asking import output_of
from plat.app.first_file.flags import flags_of_help
from plat.app.first_file.user_script import PYTHONS, user_script
from plat.app.judging.checkout import SHORT, checked_out, code_files, commit_of, git
from plat.errors import SpecError
from plat.store.home import Home
from plat.trainer.script.command import split

RANGE = ".."  # of `OLD..NEW`


@dataclass(frozen=True)
class Version:
    """A version of the program.

    command  with `{seed}` where the seed belongs, if the command takes one
    folder   where it runs
    name     in words: `this folder`, `commit 3f2a9c1b04de`
    """

    command: str
    folder: Path
    name: str

    @property
    def files(self) -> list[str]:
        """The code in the folder, for a command whose files plat cannot follow; [] for `python ...`, whose it can."""
        words = _words(self.command, self.folder)
        is_python = len(words) > 1 and os.path.basename(words[0]) in PYTHONS
        return [] if is_python else code_files(self.folder)

    @property
    def whole(self) -> Path:
        """The repository of the folder, or the folder itself."""
        with contextlib.suppress(SpecError):
            return Path(os.fsdecode(git(self.folder, "rev-parse", "--show-toplevel")).strip())
        return self.folder

    @property
    def takes_seed(self) -> bool:
        return "{seed}" in self.command or "{plat.seed}" in self.command


def find_versions(command: str, against: str, home: Home, *, link: bool = True) -> tuple[Version, Version]:
    """Return the new and the old version.

    command  the command of the new version, which runs in the current folder
    against  a folder, a commit, another command, or two commits `OLD..NEW`
    link     link what git ignores into the files of a commit

    Raises SpecError if `against` is none of these, or a commit cannot be read.
    """
    here = Path.cwd()
    if not command.strip() or not against.strip():
        what = f"there is no {'version to compare with' if command.strip() else 'command'}"
        raise SpecError(what, where="plat judge", fix="plat judge 'python train.py' --metric loss --against HEAD~1")
    new = Version(command, here, "this folder")
    older, separator, newer = against.partition(RANGE)
    if separator and (old := commit_of(here, older)) and (commit := commit_of(here, newer or "HEAD")):
        return _at(new, commit, home, link), _at(new, old, home, link)
    if os.path.isdir(against):
        return new, Version(command, Path(against).resolve(), f"folder {against}")
    if commit := commit_of(here, against):
        return new, _at(new, commit, home, link)
    if _is_command(against):
        return new, Version(against, here, f"`{against}`")
    if " " in against.strip():
        _words(against, here)  # what a shell would have to read is said
    what = f"{against!r} is no folder, no commit of a repository here, and no command"
    fix = "name one: --against HEAD~1, --against ../old, --against 'python old.py', or two commits: main..mine"
    raise SpecError(what, where="--against", fix=fix)


def _at(version: Version, commit: str, home: Home, link: bool) -> Version:
    """Return a version with the files of a commit."""
    folder = checked_out(home, version.folder, commit, link)
    return replace(version, folder=folder, name=f"commit {commit[:SHORT]}")


def _words(text: str, folder: Path) -> list[str]:
    """Return the words of a command, without the variables before them. Raises SpecError if a shell would be needed."""
    return split(text, folder).words


def _is_command(text: str) -> bool:
    """Return True for a file here, or a program with something after it."""
    try:
        words = _words(text, Path.cwd())
    except SpecError:
        return False
    return bool(words) and (os.path.isfile(words[0]) or (len(words) > 1 and shutil.which(words[0]) is not None))


def with_seed(version: Version) -> Version:
    """Return a version whose command passes the seed, if the script says in its help that it takes `--seed`.

    Only a Python script is asked (`python train.py --help`). Any other reads PLAT_SEED, or has `{seed}` already.
    Raises SpecError for a command that cannot be read, or names a Python script that is not there.
    """
    words = _words(version.command, version.folder)
    at = next((index for index, word in enumerate(words) if word.endswith(".py")), 0)
    is_python = at > 0 and os.path.basename(words[0]) in PYTHONS
    if is_python and not (version.folder / words[at]).is_file():
        raise SpecError(
            f"there is no file {words[at]} in {version.name}", where="plat judge", fix="correct the command"
        )
    if version.takes_seed or not is_python or any(word.split("=")[0] == "--seed" for word in words):
        return version
    try:
        script = user_script(str(version.folder / words[at]), words[at + 1 :])
        question = script.question
        if question is None or script.is_hydra:
            return version
        flags = flags_of_help(output_of(question, script.folder))
    except SpecError:
        return version
    if any("--seed" in flag.spellings or flag.name == "seed" for flag in flags if flag.opening.startswith("--")):
        return replace(version, command=f"{version.command} --seed {{seed}}")
    return version
