"""A corpus of pages: a file of JSON lines that is mapped into memory, and a file beside it that says where lines begin.

    {"id": "0", "contents": "\"Marena Norfen\"\nMarena Norfen was a painter who ..."}

A line may have `title` and `text` in place of `contents`. Neither file is ever read as a whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import mmap
import os
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from plat_envs.environment_errors import BadEnvironment

# The hash of a large file, remembered beside it until the file changes.

HASH_SUFFIX = ".sha256.json"
_PARTIAL = ".partial"  # the end of a hidden file's name that is being written


def readable(path: Path, what: str, fix: str) -> Path:
    """Return the path of a file. Raises BadEnvironment, which says `what` it is and how to get it, if there is none."""
    if not path.is_file():
        raise BadEnvironment(f"there is no {what}", where=str(path), fix=fix)
    return path


def stamp(path: Path) -> list[int]:
    """Return the size and the time of the last change, which tell one content of a file from another."""
    about = path.stat()
    return [about.st_size, about.st_mtime_ns]


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file. Reading 64 GB takes minutes, so it is kept beside the file if that can be written.

    Raises BadEnvironment if the file cannot be read.
    """
    beside = path.with_name(path.name + HASH_SUFFIX)
    try:
        now = stamp(path)
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
            kept = json.loads(beside.read_text())
            if kept["stamp"] == now and isinstance(kept["sha256"], str):
                return str(kept["sha256"])
        with path.open("rb") as file:
            found = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadEnvironment(f"a file cannot be read: {error.strerror}", where=str(path)) from None
    with contextlib.suppress(BadEnvironment), written(beside) as out:
        out.write(json.dumps({"stamp": now, "sha256": found}).encode())
    return found


@contextlib.contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file to write. It replaces `path` at the end of the block, and is removed after an error.

    What a killed process has left of the same file is removed first. Raises BadEnvironment if it cannot be written.
    """
    try:
        _remove_leftovers(path)
        file = _partial(path)
        try:
            with file:
                os.fchmod(file.fileno(), 0o644)
                yield file
                file.flush()
                os.fsync(file.fileno())  # some file systems only now notice that there is no room
                os.replace(file.name, path)  # while it is locked
        except BaseException:
            os.unlink(file.name)
            raise
    except OSError as error:
        what = f"a file cannot be written: {error.strerror}"
        raise BadEnvironment(what, where=str(path), fix="choose a folder that exists and has room") from None


def _partial(path: Path) -> IO[bytes]:
    """Return a new hidden file beside `path`, locked for as long as it is open, or its process lives."""
    while True:
        file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=_PARTIAL, delete=False)
        with contextlib.suppress(OSError):  # a file system without locks: then leftovers stay, too
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.path.exists(file.name):  # or else another process took it for a leftover, before the lock
            return file
        file.close()


def _remove_leftovers(path: Path) -> None:
    """Remove the hidden files of `path` that nobody has locked: their processes are dead."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*{_PARTIAL}"):
        with contextlib.suppress(OSError), name.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            name.unlink()


SUFFIX = ".offsets"
_BLOCK = 1 << 24  # bytes that are searched for ends of lines at once
_HEAD = 4  # numbers before the offsets: the form of this file, the stamp of the corpus, the CRC of the offsets
_FORM = 2
EXPECTED = 'one JSON object a line: {"id": "0", "contents": "\\"Title\\"\\ntext"}, or with title and text'


class Corpus:
    """The pages of a file, by their number: `corpus[0]` is the first line.

    Raises BadEnvironment if the file is missing or holds no pages.
    """

    def __init__(self, path: Path) -> None:
        self.path = readable(path, "corpus", "plat retrieval pages --out FILE writes one of generated pages")
        if not path.stat().st_size:
            raise BadEnvironment("the corpus is empty", where=str(path), fix=EXPECTED)
        _refuse_archive(path)
        self._starts = _offsets(path)
        with path.open("rb") as file:
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self[0]

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, number: int) -> dict[str, Any]:
        """Return a page as its line has it, with `contents`. Raises BadEnvironment if the line is no page."""
        try:
            page = json.loads(self._bytes[self._starts[number] : self._starts[number + 1]])
        except (ValueError, RecursionError) as error:
            raise self._no_page(number, str(error)) from None
        if not isinstance(page, dict):
            raise self._no_page(number, "no JSON object")
        if "contents" not in page and isinstance(page.get("text"), str):
            page["contents"] = f'"{page.get("title", "")}"\n{page["text"]}' if page.get("title") else page["text"]
        if not isinstance(page.get("contents"), str):
            raise self._no_page(number, "neither contents nor text")
        return page

    def _no_page(self, number: int, what: str) -> BadEnvironment:
        start = int(self._starts[number])
        blocks = (self._bytes[place : min(place + _BLOCK, start)] for place in range(0, start, _BLOCK))
        line = sum(block.count(b"\n") for block in blocks) + 1
        return BadEnvironment(f"a line of the corpus is no page: {what}", where=f"{self.path}:{line}", fix=EXPECTED)

    def texts(self) -> Iterator[str]:
        """Return the contents of all pages, one after another. Raises BadEnvironment for a line that is no page."""
        return (self[number]["contents"] for number in range(len(self)))

    @property
    def content_hash(self) -> str:
        """The SHA-256 of the file."""
        return file_hash(self.path)


def _refuse_archive(path: Path) -> None:
    """Raise BadEnvironment for a packed file: the published corpus is a tar file in a gzip file named .jsonl.gz."""
    with path.open("rb") as file:
        head = file.read(512)
    packed = "gzip" if head.startswith(b"\x1f\x8b") else "tar" if head[257:262] == b"ustar" else ""
    if packed:
        option = "z" if packed == "gzip" else ""
        fix = f"unpack it: tar -xO{option}f {path} > pages.jsonl" + " (or gzip -dc, if it is no tar file)" * bool(
            option
        )
        raise BadEnvironment(f"the corpus is a packed file ({packed})", where=str(path), fix=fix)


def _offsets(path: Path) -> NDArray[np.int64]:
    """Return where each line begins, and where the last one ends; made once for each content of the file."""
    beside = path.with_name(path.name + SUFFIX)
    head = [_FORM, *stamp(path)]
    try:
        kept: NDArray[np.int64] = np.load(beside, mmap_mode="r", allow_pickle=False)
        if kept.dtype == np.int64 and kept.ndim == 1 and len(kept) > _HEAD + 1:
            if kept[:_HEAD].tolist() == [*head, zlib.crc32(kept[_HEAD:].data)]:
                return kept[_HEAD:]
    except (OSError, ValueError, EOFError):
        pass  # there is none yet, or it is damaged
    found = np.concatenate([[0], *_ends_of_lines(path)]).astype(np.int64)
    size = head[1]
    if found[-1] != size:  # the last line has no end
        found = np.append(found, size)
    filled = np.diff(found) > 1  # an empty line is no page
    starts = np.append(found[:-1][filled], np.int64(size))
    if len(starts) == 1:
        raise BadEnvironment("the corpus is empty", where=str(path), fix=EXPECTED)
    with written(beside) as file:
        np.save(file, np.concatenate([[*head, zlib.crc32(starts.data)], starts]).astype(np.int64))
    return starts


def _ends_of_lines(path: Path) -> Iterator[NDArray[np.int64]]:
    """Return the places after each end of a line, in several arrays."""
    place = 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            yield np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == ord("\n")) + (place + 1)
            place += len(block)


# What finds pages: the files of a server, the protocol of an index, and the hashes that decide the answers.

BM25 = "bm25"  # the encoder's name of an index of words
Found = list[tuple[int, float]]  # numbers of pages and their scores, best first


class Finder(Protocol):
    """`kind`: "dense" or "bm25"; `encoder_hash`: of the encoder's files, "" if there is none."""

    kind: str
    encoder_hash: str

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query."""


@dataclass(frozen=True)
class Source:
    """The files that a server reads. `encoder`: a folder, or "bm25"."""

    corpus: Path
    index: Path
    encoder: str
    device: str = "cpu"

    @property
    def build_command(self) -> str:
        return f"plat retrieval build --corpus {self.corpus} --encoder {self.encoder} --out {self.index}"

    def misfit(self, what: str) -> BadEnvironment:
        """Return the error of an index that cannot be used with the corpus and the encoder."""
        return BadEnvironment(what, where=str(self.index), fix=self.build_command)


@dataclass(frozen=True)
class Hashes:
    """The SHA-256 of what decides the answers."""

    corpus: str
    index: str
    encoder: str

    @property
    def combined(self) -> str:
        """The hash of the three: `task.env.index` of a run."""
        return sha256("\n".join((self.corpus, self.index, self.encoder)).encode()).hexdigest()
