"""Files that others may have made: only regular ones are read, with limits of their size, depth and aliases.

Opening a pipe waits for a writer without end, and so does reading a device. A few lines of YAML can stand for billions
of values, and PyYAML's C parser ends the process on a text that is nested deeply enough. Everything that plat reads
from a home, a bundle or a folder of the user goes through here.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml.nodes import Node

LARGEST_FILE = 1 << 30  # bytes: of a file that is read whole
MAX_DEPTH = 200  # of YAML
MAX_VALUES = 1_000_000  # of YAML, after aliases are expanded
SHORT = 4096  # characters: no text of this length is nested too deeply for PyYAML's C parser


class NotRegular(OSError):
    """A pipe, a device or a socket where a file should be."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", os.fspath(path))


def is_special(path: str | os.PathLike[str]) -> bool:
    """Whether this is a pipe, a device or a socket: something that must not be opened to be read."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file to read its bytes. OSError as from `open`; NotRegular for what is neither a file nor a folder."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe without a writer opens, too
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        if not stat.S_ISREG(mode):
            raise NotRegular(path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def read_bytes(path: str | os.PathLike[str], limit: int | None = LARGEST_FILE) -> bytes:
    """What a regular file holds; OSError when it cannot be read, or has more than `limit` bytes."""
    with open_regular(path) as file:
        if limit is not None and os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", os.fspath(path))
        return file.read()


def read_text(path: str | os.PathLike[str], limit: int = LARGEST_FILE, errors: str = "strict") -> str:
    """What a regular file holds as UTF-8, as `read_bytes`; ValueError when it is none. Line ends become newlines."""
    text = read_bytes(path, limit).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; ValueError when it is none, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_json_value(path: Path) -> Any:
    """The value in a JSON file; OSError or ValueError when it cannot be read."""
    return parse_json(read_bytes(path))


def parse_yaml(text: str) -> Any:
    """The value of a YAML text; ValueError when it is not plain YAML, nested too deeply, or stands for too much.

    For what plat has written. Files of users are read with positions: `plat.spec.yaml_reader`.
    """
    import yaml

    kind: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if len(text) > SHORT:
            _check_depth(yaml.parse(text, kind))
        loader = kind(text)
        try:
            root = loader.get_single_node()
            if "&" in text and root is not None:
                _count(root, {}, 0)
            return None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, TypeError, RecursionError) as error:  # TypeError: a key that cannot be one
        raise ValueError(f"not plain YAML: {' '.join(str(error).split())[:200]}") from None


def _check_depth(events: Any) -> None:
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")


def _count(node: Node, known: dict[int, int], depth: int) -> int:
    """How many values a node stands for when its aliases are expanded; ValueError for too many, or an endless one."""
    if id(node) in known:
        if not known[id(node)]:
            raise ValueError("an anchor that contains its own alias")
        return known[id(node)]
    if depth > MAX_DEPTH:
        raise ValueError("nested too deeply")
    known[id(node)] = 0  # it is being counted
    total = 1
    children = node.value if isinstance(node.value, list) else ()
    for child in children:
        for part in child if isinstance(child, tuple) else (child,):
            total += _count(part, known, depth + 1)
    if total > MAX_VALUES:
        raise ValueError(f"it expands to more than {MAX_VALUES:,} values")
    known[id(node)] = total
    return total
