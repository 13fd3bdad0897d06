"""Follow the content of a file that a script appends to, writes anew, or replaces."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path

from plat.plain_files import open_regular

LONGEST_LINE = 1 << 20  # bytes; a longer line is no metrics
CHUNK = 16 << 20  # bytes read at once
EDGE = 4096  # bytes at the beginning, and before the place of reading, by which a file is recognised


class Content:
    """The complete lines of a file, as they appear."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._file = 0  # inode of the file that was read
        self._seen: tuple[int, int, int] | None = None  # inode, size and time at the last look
        self._seen_whole: tuple[int, int, int] | None = None  # the same of `changed`
        self._begin = self._end = b""  # of the part that was read
        self._is_again = False  # `begin_again` was called
        self._is_cut = False  # the line at `_offset` is the rest of one that is too long

    def read(self, is_last: bool = False) -> tuple[bool, bytes]:
        """Return whether the file begins anew, and its next complete lines; b"" if there are none, or if it is absent.

        A line without an end waits, unless `is_last`. At most CHUNK bytes are read: call again until there are none.
        """
        try:
            file = open_regular(self._path)
        except OSError:
            return False, b""
        with file:
            status = os.fstat(file.fileno())
            now = (status.st_ino, status.st_size, status.st_mtime_ns)
            if now == self._seen and not is_last:
                return False, b""
            goes_on = status.st_ino == self._file and self._goes_on(file, status.st_size)
            is_anew = self._is_again or (self._offset > 0 and not goes_on)
            offset = 0 if is_anew else self._offset
            file.seek(offset)
            data = file.read(min(CHUNK, status.st_size - offset))
            file.seek(0)
            if file.read(len(self._begin)) != self._begin and not is_anew and not is_last:
                return False, b""  # written anew meanwhile
        whole = len(data) if is_last and len(data) < CHUNK else data.rfind(b"\n") + 1
        if not whole and len(data) < LONGEST_LINE:
            return False, b""  # also while a file is written anew, and still empty
        self._seen = now if whole == len(data) and len(data) < CHUNK else None
        used = data[: whole or len(data)]
        if not offset:
            self._begin, self._is_cut = b"", False
        self._begin = (self._begin + used)[:EDGE] if len(self._begin) < EDGE else self._begin
        self._end = (self._end + used)[-min(EDGE, offset + len(used)) :]
        self._is_again = False
        self._offset, self._file = offset + len(used), status.st_ino
        was_cut, self._is_cut = self._is_cut, not whole
        if not whole:
            return is_anew, b""
        return is_anew, used[used.find(b"\n") + 1 :] if was_cut else used

    def begin_again(self) -> None:
        """Let the next call of `read` begin anew."""
        self._offset, self._seen, self._is_again = 0, None, True
        self._begin = self._end = b""

    def changed(self, always: bool) -> bytes:
        """Return everything if the file has changed since the last call, or `always`; b"" otherwise."""
        try:
            status = os.stat(self._path)
        except OSError:
            return b""
        now = (status.st_ino, status.st_size, status.st_mtime_ns)
        if now == self._seen_whole and not always:
            return b""
        self._seen_whole = now
        return self.whole()

    def whole(self) -> bytes:
        """Return everything that the file has now, b"" if it is absent."""
        try:
            with open_regular(self._path) as file:
                return file.read()
        except OSError:
            return b""

    def _goes_on(self, file: BufferedReader, size: int) -> bool:
        """Return True if the part that was read is still there."""
        if size < self._offset or file.read(len(self._begin)) != self._begin:
            return False
        file.seek(self._offset - len(self._end))
        return file.read(len(self._end)) == self._end
