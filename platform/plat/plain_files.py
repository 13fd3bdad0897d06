"""Read files that others may have made, within limits of size, nesting depth and YAML aliases.

Only regular files are read, because opening a pipe or reading a device can block for ever. A few lines of YAML can
expand to billions of values, and PyYAML's C parser crashes on deeply nested text. Everything that plat reads from a
home, a bundle or a user's folder goes through this module.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yaml.nodes import Node

LARGEST_FILE = 1 << 30  # bytes; the limit for a file that is read whole
MAX_DEPTH = 200  # of YAML
MAX_VALUES = 1_000_000  # of YAML, after aliases are expanded
SHORT = 4096  # characters; no text this short is nested too deeply for PyYAML's C parser


class NotRegular(OSError):
    """A pipe, a device or a socket where a file should be."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(errno.EINVAL, "it is not a regular file", os.fspath(path))


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return True if the path is a pipe, a device or a socket: do not open it for reading. False if it is missing."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file to read its bytes. Raises OSError as `open` does, and NotRegular for a pipe, device or socket."""
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
    """Return the content of a regular file. Raises OSError if it cannot be read or has more than `limit` bytes."""
    with open_regular(path) as file:
        if limit is not None and os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit:,} bytes", os.fspath(path))
        return file.read()


def read_text(path: str | os.PathLike[str], limit: int = LARGEST_FILE, errors: str = "strict") -> str:
    """Return the text of a UTF-8 file, with newlines. Raises OSError as `read_bytes` does, ValueError if not UTF-8."""
    try:
        text = read_bytes(path, limit).decode("utf-8", errors)
    except UnicodeDecodeError as error:
        name, kind = os.path.basename(path), "utf-16" if error.object[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        raise ValueError(f"it is not UTF-8, but maybe {kind}: iconv -f {kind} -t utf-8 {name} > new-{name}") from error
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def json_objects(text: str | bytes) -> Iterator[dict[str, Any]]:
    """Yield the lines of a text that are JSON objects; others, for example one cut off by a kill, are skipped."""
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            value = parse_json(line)
            if isinstance(value, dict):
                yield value


def read_json_value(path: Path) -> Any:
    """Return the value in a JSON file. Raises OSError or ValueError if it cannot be read."""
    return parse_json(read_bytes(path))


def parse_yaml(text: str) -> Any:
    """Return the value of a YAML text that plat has written.

    Raises ValueError if it is not plain YAML, nested too deeply, or expands to too many values. Files of users are read
    with positions by `plat.spec.reading.yaml_reader`.
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
    except (yaml.YAMLError, TypeError, RecursionError) as error:  # TypeError: an unhashable key
        raise ValueError(f"not plain YAML: {' '.join(str(error).split())[:200]}") from None


def _check_depth(events: Any) -> None:
    import yaml

    depth = 0
    for event in events:
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ValueError("nested too deeply")


def _count(node: Node, known: dict[int, int], depth: int) -> int:
    """Return the number of values in a node after alias expansion; ValueError if that is endless or too many."""
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
