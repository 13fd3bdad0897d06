"""Let a command run in a folder of its own, its PLAT_RUN_DIR, so that what it writes there is of this run alone.

The folder has links to the files that the command names or `script.files` lists, at the same relative paths. It has no
links to folders, because a script could write into these: folders that the command names become absolute paths.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from plat.errors import RunError
from plat.trainer.script.command import OUTPUT
from plat.trainer.script.config import ScriptRunConfig
from plat.trainer.script.source_files import followed_files

OF_PLAT = ("config.json", "metrics.jsonl", "checkpoints")  # what plat itself has in the folder


def link_files(config: ScriptRunConfig, files: Path) -> None:
    """Link the followed files of a run into its folder. Raises RunError where plat has something under that name."""
    folder = os.path.abspath(config.script.folder)
    for path in followed_files(config)[0]:
        below = os.path.relpath(path, folder)
        if below.startswith(".."):
            continue
        if below.split(os.sep)[0] in OF_PLAT:
            fix = "rename it, or leave script.own_folder out and let the script write below {plat.run_dir}"
            raise RunError(f"the folder of a run has a {below} of plat", where="script.own_folder", fix=fix)
        link = files / below
        link.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(link):  # else the script has replaced it in an earlier attempt
            link.symlink_to(os.path.join(folder, below))


def with_folders(config: ScriptRunConfig, words: Sequence[str]) -> list[str]:
    """Return the words of a command in which folders, and files outside of `script.folder`, are absolute paths.

    What follows an option for an output, such as `--out`, stays: it is to be in the folder of the run.
    """
    folder, found = Path(os.path.abspath(config.script.folder)), list(words[:1])
    for before, word in pairwise(words):
        option, separator, value = word.partition("=")
        text = value if separator else word
        path = Path(os.path.normpath(folder / text))
        is_kept = OUTPUT.fullmatch(option if separator else before) or path == folder or os.path.isabs(text)
        is_needed = path.is_dir() or (path.is_file() and not path.is_relative_to(folder))
        found.append(word.removesuffix(text) + str(path) if text and is_needed and not is_kept else word)
    return found
