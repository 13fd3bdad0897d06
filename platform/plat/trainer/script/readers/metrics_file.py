"""Read a file of metrics by its content: JSON lines, a JSON document, or CSV.

A file may grow, be written anew with more columns, be replaced, or be overwritten at each step. Values that are known
count once. When the script has ended, the whole file is read once more and compared with what was yielded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any, Protocol

from plat.errors import RunError
from plat.plain_files import open_regular
from plat.trainer.script.readers.csv_metrics import CsvMetrics
from plat.trainer.script.readers.objects import STEPS, Logged, Look, Objects, Refuse, objects_in, same

CSV = (".csv", ".tsv")
UTF16 = (b"\xff\xfe", b"\xfe\xff")
ANEW = "append to the file, or write all rows again; a training that starts again in one run needs a file of its own"
Known = dict[int, dict[str, float]]  # step -> metric -> value


class Parser(Protocol):
    """Reads the parts of one file, in their order. `is_outdated`: the file must be read again from its beginning."""

    is_outdated: bool

    def read(self, text: str, is_last: bool = False) -> Iterator[Logged]: ...


class JsonLines:
    """Lines of JSON, or with `is_document` one document: an object, a list of them, or a state of HF's Trainer."""

    is_outdated = False

    def __init__(self, objects: Objects, is_document: bool) -> None:
        self._objects, self._is_document = objects, is_document

    def read(self, text: str, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics of complete lines, or of a whole document."""
        if self._is_document:
            for values in _document(text):
                yield from self._objects.of_values(values)
        else:
            for line in text.split("\n"):
                yield from self._objects.of_line(line)
        if is_last or self._is_document:
            yield from self._objects.end()


class MetricsFile:
    """The metrics in a file. `values`: metric -> step -> the newest value that it has shown.

    step      the name of the step; "": the usual ones
    refuse    says what cannot be read
    known     the values that were read, also from other files of the same source
    options   more arguments of `Objects` and, for `first`, of `CsvMetrics`
    """

    def __init__(self, path: Path, step: str, refuse: Refuse, known: Known | None = None, **options: Any) -> None:
        self._path, self._step, self._refuse, self._options = path, step, refuse, options
        self._content = Content(path)
        self._known: Known = {} if known is None else known
        self.values: dict[str, dict[int, float]] = {}
        self._parser = self._made(False)
        self._is_document = False  # what a .json file has

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call. A line without an end waits, unless `is_last`. Raises RunError."""
        if self._path.suffix == ".json":
            whole = self._content.changed(is_last)
            self._is_document = self._is_document if not whole else not _is_lines(whole)
            if self._is_document:
                yield from self._compared(self._made(True).read(_text(whole, self._path, self._refuse)), is_last)
                return
        is_anew, data = self._content.read()
        while data:
            while is_anew and (more := self._content.read()[1]):
                data += more
            if is_anew:
                self._parser = self._made(False)
            found = self._parser.read(_text(data, self._path, self._refuse))
            yield from self._compared(found) if is_anew else self._fresh(found)
            if self._parser.is_outdated:
                self._content.begin_again()
            is_anew, data = self._content.read()
        if is_last and (data := self._content.whole()):
            found = self._made(False).read(_text(data, self._path, self._refuse), is_last=True)
            yield from self._compared(found, is_last=True)

    def _made(self, is_document: bool) -> Parser:
        if self._path.suffix in CSV:
            return CsvMetrics(str(self._path), self._step, self._refuse, first=self._options.get("first", 1))
        return JsonLines(Objects(self._step, self._refuse, str(self._path), **self._options), is_document)

    def _fresh(self, found: Iterable[Logged]) -> Iterator[Logged]:
        """Yield what is not known, as the script logged it."""
        for logged in found:
            for name, value in logged.metrics.items():
                self.values.setdefault(name, {})[logged.step] = value
            before = self._known.setdefault(logged.step, {})
            metrics = {name: value for name, value in logged.metrics.items() if not same(before.get(name), value)}
            before.update(metrics)
            if metrics:
                yield logged._replace(metrics=metrics)

    def _compared(self, found: Iterable[Logged], is_last: bool = False) -> Iterator[Logged]:
        """Yield what a file that is read again has and that is not known: of a step, its last values alone."""
        last: dict[tuple[str, int], Logged] = {}
        for logged in found:
            before = last.get((logged.counter, logged.step), logged)
            last[logged.counter, logged.step] = logged._replace(metrics={**before.metrics, **logged.metrics})
        ends: dict[str, int] = {}
        for (_, step), logged in last.items():
            for name, value in logged.metrics.items():
                self.values.setdefault(name, {})[step] = value
                ends[name] = max(step, ends.get(name, 0))
            before_it = self._known.get(step, {})
            kinds: dict[Look, dict[str, float]] = {"changed": {}, "found": {}}
            for name, value in logged.metrics.items():
                if not same(before_it.get(name), value):
                    kinds["changed" if name in before_it else "found"][name] = value
            for look, metrics in kinds.items():
                yield from self._fresh([logged._replace(metrics=metrics, look=look)])
        for name, end in ends.items():
            if is_last and end < (top := max(self.values[name])):
                what = f"the file was written anew: {name} ends at step {end}, and ended at step {top} before"
                raise RunError(what, where=str(self._path), fix=ANEW)


class MetricsFiles:
    """All files below a folder whose paths match a pattern, such as `*/metrics.csv`. A value counts once."""

    def __init__(self, folder: Path, pattern: str, make: Callable[[Path, Known], MetricsFile]) -> None:
        self._folder, self._pattern, self._make = folder, pattern, make
        self._files: dict[Path, MetricsFile] = {}
        self._known: Known = {}

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call, of one file after the other. Raises RunError (`_check`)."""
        exact = self._folder / self._pattern
        for path in [exact] if exact.exists() else sorted(self._folder.glob(self._pattern)):
            if path not in self._files:
                self._files[path] = self._make(path, self._known)
            for logged in self._files[path].new(is_last):
                self._check(path, logged.metrics)
                yield logged

    def _check(self, path: Path, metrics: Iterable[str]) -> None:
        """Raise RunError if another file has one of the metrics, and neither has all values of the other."""
        for other, name in ((each, name) for each in self._files if each != path for name in metrics):
            few, many = sorted((self._files[each].values.get(name, {}) for each in (path, other)), key=len)
            if name not in STEPS and not all(same(many.get(step), value) for step, value in few.items()):
                fix = "name one file with script.metrics, or give their metrics names of their own"
                raise RunError(f"two files have the metric {name}: {other} and {path}", fix=fix)


def _document(text: str) -> list[Mapping[str, Any]]:
    """Return the objects of a JSON document; none while it is still being written."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [*objects_in(text)]
    if isinstance(value, Mapping):
        value = value["log_history"] if isinstance(value.get("log_history"), list) else [value]
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _is_lines(text: bytes) -> bool:
    """Return True if a file has JSON lines, and no document: its first line is a whole object."""
    first, _, rest = text.lstrip().partition(b"\n")
    try:
        value = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, Mapping) and "log_history" not in value and bool(rest.strip())


def _text(data: bytes, path: Path, refuse: Refuse) -> str:
    if data[:2] in UTF16:
        refuse("the file is UTF-16", str(path), "write it as UTF-8")
        return ""
    return data.decode("utf-8", "replace")


# Follow the content of a file that a script appends to, writes anew, or replaces.

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
