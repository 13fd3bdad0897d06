"""Which CPU cores are in use by the sweeps of this user on this machine, whatever their homes.

Each running job holds a lock on one file for each of its threads. The kernel lets go of a lock when its process ends,
however that ends, so nobody has to clean up. The files say how many cores are in use; no job is bound to a core.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from plat.cores import usable_cores


class SharedCores:
    """The cores that the jobs of one sweep hold. Where the files cannot be used, every core counts as free."""

    def __init__(self, folder: Path | None = None) -> None:
        self.count = usable_cores()
        self._folder = folder or Path(tempfile.gettempdir()) / f"plat-cores-{os.getuid()}"
        self._held: dict[str, list[int]] = {}  # job -> open files
        self._is_noted = False
        self._usable = self._make_folder()

    def _make_folder(self) -> bool:
        """Whether the folder is there and belongs to this user alone."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            status = self._folder.lstat()
        except OSError:
            return False
        return self._folder.is_dir() and not self._folder.is_symlink() and status.st_uid == os.getuid()

    def free(self) -> int:
        """How many cores no sweep uses now."""
        handles = self._locked(self.count)
        for handle in handles:
            os.close(handle)
        return len(handles) if self._usable else self.count

    def take(self, job: str, threads: int) -> None:
        """Count this many cores as used by a job, or as many as are free."""
        self._held[job] = self._locked(threads)

    def give_back(self, job: str) -> None:
        for handle in self._held.pop(job, ()):
            os.close(handle)

    def has_room(self, notices: list[str]) -> bool:
        """Whether one more job may start without taking a core of another sweep; the first refusal is put in words."""
        free = self.free()
        others = self.count - free - sum(map(len, self._held.values()))
        if free or not others:
            return True
        if not self._is_noted:
            self._is_noted = True
            text = f"other sweeps use {others} of {self.count} cores: this one takes what is left (--jobs N takes N)"
            notices.append(text)
        return False

    def _locked(self, most: int) -> list[int]:
        """Open files with a lock on each, of cores that were free; at most this many."""
        handles: list[int] = []
        for number in range(self.count if self._usable else 0):
            if len(handles) == most:
                break
            try:
                handle = os.open(self._folder / str(number), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                handles.append(handle)
            except OSError:
                os.close(handle)
        return handles
