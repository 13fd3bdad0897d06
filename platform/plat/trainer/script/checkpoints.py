"""Keep what a script writes into PLAT_CHECKPOINT_DIR: a snapshot is a checkpoint of the run.

A script that is killed while it writes loses nothing: the next attempt gets the newest complete snapshot. A snapshot is
taken when the files have not changed for SETTLED seconds. It covers the metrics logged before the newest of its files.
A single file that changes all the time is copied between two changes. Links within the folder stay links.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path
from typing import Any

from plat.plain_files import is_special
from plat.processes.locks import is_open
from plat.trainer.api import RunIO, State

LONGEST = 5.0  # seconds that metrics wait for files that change all the time
LINKS = "links"  # in the `meta` of a snapshot: the links of the folder
SETTLED = 0.5  # seconds without a change
Signature = tuple[tuple[str, int, int], ...]


class _Changed(Exception):
    """Files changed while they were copied."""


class CheckpointFolder:
    """The folder PLAT_CHECKPOINT_DIR of one attempt.

    restored   the step of the snapshot in it, None for none
    meta       what that snapshot keeps besides files
    """

    def __init__(self, folder: Path, io: RunIO) -> None:
        self._folder, self._io = folder, io
        was_started = folder.exists()  # by an earlier attempt
        shutil.rmtree(folder, ignore_errors=True)
        found = io.restore()
        if found is not None and found[1].files is not None:
            shutil.copytree(found[1].files, folder)
            for name, target in found[1].meta.pop(LINKS, {}).items():
                (folder / name).symlink_to(target)
        elif was_started:
            print("[plat: there is no copy of PLAT_CHECKPOINT_DIR yet: the script starts anew]", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        self.restored = None if found is None else found[0]
        self.meta = {} if found is None else found[1].meta
        self._kept = self._seen = self._signature()
        self._began = self._changed = 0.0  # when the newest series of changes began; the newest change
        self._refused: set[Path] = set()  # links that are not kept
        self._is_new = False  # whether the last look at the files has found a change

    def written_at(self) -> float | None:
        """Return the time of the newest file of a snapshot that is still to be taken; None if there is none.

        Log the metrics of earlier times, and no others, before `keep`.
        """
        now = self._signature()
        self._is_new = now != self._seen
        if self._is_new:
            if self.has_settled():
                self._began = time.monotonic()
            self._seen, self._changed = now, time.monotonic()
        return max(changed for _, _, changed in now) / 1e9 if now and now != self._kept else None

    def is_restless(self) -> bool:
        """Return True if the files have changed for LONGEST seconds without a pause: metrics do not wait for them."""
        return self._changed - self._began > LONGEST

    def takes_turn(self) -> bool:
        """Return True if restless files can be kept now, and wait for a pause of the next ones again.

        That is a single file, changed since the last look and closed. Several may not belong together at such a moment.
        """
        is_whole = self.is_restless() and self._is_new and len(self._seen) == 1 and not is_open(self._seen[0][0])
        if is_whole:
            self._began = self._changed
        return is_whole

    def has_settled(self) -> bool:
        """Return True if the files have not changed for SETTLED seconds."""
        return time.monotonic() - self._changed >= SETTLED

    def keep(self, step: int, meta: dict[str, Any] | None = None) -> None:
        """Save a snapshot that covers all steps up to `step`, unless files change meanwhile: then a later call does."""
        before = self._seen  # those of `written_at`: the metrics of newer ones are not logged yet
        with contextlib.suppress(_Changed):
            state = State({}, (meta or {}) | ({LINKS: links} if (links := self._links()) else {}))
            self._io.save(step, state, write_files=lambda target: self._copy(target, before))
            self._kept = before

    def _copy(self, target: Path, before: Signature) -> None:
        try:
            shutil.copytree(self._folder, target, dirs_exist_ok=True, ignore=_special)
        except (shutil.Error, FileNotFoundError):
            if self._signature() == before:
                raise
        if self._signature() != before:
            raise _Changed

    def _links(self) -> dict[str, str]:
        """Return link -> where it leads, for links that stay in the folder; say which others are left out."""
        found = {}
        for path in (Path(each) for each, _, _ in self._signature() if os.path.islink(each)):
            target = os.path.relpath(path.parent / path.readlink(), path.parent)
            if (inside := Path(os.path.normpath(path.parent / target))).is_relative_to(self._folder):
                found[str(path.relative_to(self._folder))] = target
            elif path not in self._refused:
                print(f"[plat: {path} leads to {inside}, out of PLAT_CHECKPOINT_DIR: it is not kept]", flush=True)
                self._refused.add(path)
        return found

    def _signature(self) -> Signature:
        found = []
        for folder, folders, names in os.walk(self._folder):
            for path in (f"{folder}/{name}" for name in [*folders, *names]):
                with contextlib.suppress(OSError):
                    status = os.lstat(path)
                    if stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode):
                        found.append((path, status.st_size, status.st_mtime_ns))
        return tuple(sorted(found))


def _special(folder: str, names: list[str]) -> list[str]:
    """Return the names of pipes, sockets and devices, which have no content to keep, and of links."""
    return [name for name in names if os.path.islink(path := Path(folder, name)) or is_special(path)]
