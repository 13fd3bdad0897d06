"""Find the two versions that are judged: a command here, and another commit, folder or command."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from plat.app.first_file.asking import output_of
from plat.app.first_file.flags import flags_of_help
from plat.app.first_file.user_script import PYTHONS, user_script
from plat.app.judging.checkout import SHORT, checked_out, commit_of
from plat.errors import SpecError
from plat.store.home import Home

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
    if not command.strip():
        raise SpecError("there is no command", where="plat judge", fix="plat judge 'python train.py' --metric loss ...")
    new = Version(command, here, "this folder")
    older, separator, newer = against.partition(RANGE)
    if separator and (old := commit_of(here, older)) and (commit := commit_of(here, newer or "HEAD")):
        return _at(new, commit, home, link), _at(new, old, home, link)
    if Path(against).is_dir():
        return new, Version(command, Path(against).resolve(), f"folder {against}")
    if commit := commit_of(here, against):
        return new, _at(new, commit, home, link)
    if _is_command(against):
        return new, Version(against, here, f"`{against}`")
    what = f"{against!r} is no folder, no commit of a repository here, and no command"
    fix = "name one: --against HEAD~1, --against ../old, --against 'python old.py', or two commits: main..mine"
    raise SpecError(what, where="--against", fix=fix)


def _at(version: Version, commit: str, home: Home, link: bool) -> Version:
    """Return a version with the files of a commit."""
    folder = checked_out(home, version.folder, commit, link)
    return replace(version, folder=folder, name=f"commit {commit[:SHORT]}")


def _is_command(text: str) -> bool:
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    return bool(words) and (shutil.which(words[0]) is not None or Path(words[0]).is_file())


def with_seed(version: Version) -> Version:
    """Return a version whose command passes the seed, if the script says in its help that it takes `--seed`.

    Only a Python script is asked (`python train.py --help`). Any other reads PLAT_SEED, or has `{seed}` already.
    """
    words = shlex.split(version.command)
    at = next((index for index, word in enumerate(words) if word.endswith(".py")), None)
    if version.takes_seed or at is None or at == 0 or os.path.basename(words[at - 1]) not in PYTHONS:
        return version
    if any(word == "--seed" or word.startswith("--seed=") for word in words):
        return version
    script = user_script(str(version.folder / words[at]), words[at + 1 :])
    question = script.question
    if question is None or script.is_hydra:
        return version
    try:
        flags = flags_of_help(output_of(question, version.folder))
    except SpecError:
        return version
    if any("--seed" in flag.spellings or flag.name == "seed" for flag in flags if flag.opening.startswith("--")):
        return replace(version, command=f"{version.command} --seed {{seed}}")
    return version
