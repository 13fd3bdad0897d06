"""Copy the files that decide a script's result, so that an edit reaches no run that was planned before it.

    files/<path>            the folders of these files: the files are copies, everything else is a link to the original
    hook/sitecustomize.py   lets Python import the copies (`import_hook`)
    files.json              the hashes of the copies, and of the files that stay where they are

The script runs in its usual folder. Its command names the copies, and beside them is what is beside the files. Not
copied are data, large files, what only `script.files` names, and what another program than Python would import.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from plat.errors import SpecError
from plat.plain_files import read_json_value
from plat.plugins.plugin_code import PluginCode
from plat.trainer.script import import_hook
from plat.trainer.script.command import words_of
from plat.trainer.script.config import ScriptRunConfig
from plat.trainer.script.named_files import CODE, LARGE, named_files
from plat.trainer.script.source_files import followed_files, hash_of, source_files

HOOK = "hook"  # with which PYTHONPATH of a script begins
MOST = 5_000  # entries of a folder that are linked one by one
ELSEWHERE = re.compile(r"\b(docker|podman|singularity|apptainer|enroot|shifter|ssh|kubectl)\b")  # have other files
NO_PYTHON = (".sh", ".R", ".jl", ".pl", ".js", ".rb")


def place_of(config: ScriptRunConfig, digest: str, folder: Path) -> Path | None:
    """Return where the snapshot of a run with this digest is, or would be; None for a run that needs none."""
    if not config.script.snapshot or ELSEWHERE.search(" ".join(words_of(config.script))):
        return None
    return folder / hashlib.sha256(f"{digest} {os.path.realpath(config.script.folder)}".encode()).hexdigest()[:16]


def kept(config: ScriptRunConfig, digest: str, folder: Path) -> Path | None:
    """Return the snapshot of a run, made if it is missing; None if it needs none, or the files are others by now."""
    place = place_of(config, digest, folder)
    if place is None or place.is_dir():
        return place
    scratch = place.with_name(f".tmp-{os.getpid()}-{place.name}")
    with contextlib.suppress(OSError, SpecError):
        scratch.mkdir(parents=True)
        _write(config, scratch)
        files = source_files(config)
        if not changed_in(scratch) and PluginCode(files, earlier=files.earlier).is_named_by(digest):
            scratch.rename(place)  # fails if another process was first
    shutil.rmtree(scratch, ignore_errors=True)
    return place if place.is_dir() else None


def _write(config: ScriptRunConfig, folder: Path) -> None:
    """Make a snapshot in an empty folder. Raises OSError also if a folder has too many entries to link."""
    named = {os.path.realpath(file.path) for file in named_files(config) if file.text}
    is_of_python = not any(name.endswith(NO_PYTHON) for name in named)
    copies: dict[str, str] = {}
    in_place: dict[str, str] = {}
    followed, listed = followed_files(config)
    for path, digest in followed.items():
        real = os.path.realpath(path)
        is_copied = real in named or (is_of_python and path not in listed)
        is_copied = is_copied and path.suffix in CODE and os.path.getsize(real) <= LARGE
        (copies if is_copied else in_place)[real] = digest
    _link(folder, copies)
    for real in copies:
        shutil.copy2(real, _place(folder, real))
    (folder / HOOK).mkdir()
    shutil.copyfile(import_hook.__file__, folder / HOOK / "sitecustomize.py")
    (folder / "files.json").write_text(json.dumps({"copies": copies, "in_place": in_place}, indent=1) + "\n")


def changed_in(folder: Path) -> list[str]:
    """Return the files of a snapshot that are not what was planned: copies, and files that stay where they are."""
    kept = read_json_value(folder / "files.json")
    places = {str(_place(folder, real)): digest for real, digest in kept["copies"].items()}
    places |= kept["in_place"]
    return [path for path in places if not os.path.isfile(path) or hash_of(Path(path)) != places[path]]


def left_in(folder: Path) -> list[str]:
    """Return the files that runs have written into a snapshot, e.g. beside `__file__`."""
    made = (folder / "files.json").stat().st_mtime
    paths = [path for path in folder.rglob("*") if not path.is_symlink() and path.is_file() and path.suffix != ".pyc"]
    return sorted(str(path) for path in paths if path.stat().st_mtime > made)


def redirected(config: ScriptRunConfig, words: Sequence[str], folder: Path) -> list[str]:
    """Return the words of a command with the copies in place of the files, also inside of `bash -c '...'`."""
    places = {each.text: _place(folder, os.path.realpath(each.path)) for each in named_files(config) if each.text}
    copies = {text: str(place) for text, place in places.items() if place.is_file() and not place.is_symlink()}
    found = []
    for before, word in zip(["", *words], words, strict=False):
        for text, copy in copies.items() if before not in ("--config-name", "-cn") else ():
            if word == text or shlex.quote(copy) == copy:
                word = copy.join(re.split(rf"(?<![\w./-]){re.escape(text)}(?![\w./-])", word))
        found.append(word.replace("PYTHONPATH=", f"PYTHONPATH={folder / HOOK}:"))
    return found


def _link(folder: Path, copies: Mapping[str, str]) -> None:
    """Make the folders of the copies, with links to everything else in the original folders."""
    own = os.path.realpath(folder.parents[1])  # the home
    parents = {str(parent) for real in copies for parent in Path(real).parents}
    for parent in sorted(parents):
        here = _place(folder, parent)
        here.mkdir(parents=True, exist_ok=True)
        names = os.listdir(parent) if os.access(parent, os.R_OK) else []
        if len(names) > MOST and any(os.path.dirname(real) == parent for real in copies):
            raise OSError(f"{parent} has {len(names)} entries, too many to link")
        for name in names if len(names) <= MOST else ():
            path = os.path.join(parent, name)
            real = os.path.realpath(path) if os.path.islink(path) else path
            if real not in copies and real not in parents:
                if name != "__pycache__" and real != own:
                    (here / name).symlink_to(path)
            elif real != path:
                (here / name).symlink_to(os.path.relpath(_place(folder, real), here))


def _place(folder: Path, real: str) -> Path:
    return folder / "files" / real.lstrip(os.sep)
